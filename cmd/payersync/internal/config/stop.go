package config

import (
	"net/url"
	"strings"
)

// defaultStop is the path for stopping reminders, on the host of the webhooks.
const defaultStop = "/letters/stop"

// StopURL returns the public address for payers to stop reminders: letters.stop_url, or one on the webhooks'
// host; "" if neither is public.
func (c *Config) StopURL() string {
	if own := strings.TrimSuffix(c.Letters.StopURL, "/"); own != "" {
		if u, err := url.Parse(own); err == nil && u.Path == "" {
			return own + defaultStop
		}
		return own
	}
	if c.Billing.Webhook == nil || c.Server.Webhooks == "" {
		return ""
	}
	public, err := url.Parse(c.Billing.Webhook.PublicURL)
	if err != nil || public.Scheme != "https" || public.Host == "" {
		return ""
	}
	return (&url.URL{Scheme: public.Scheme, Host: public.Host, Path: defaultStop}).String()
}

// StopPath returns the path of that address, with a slash behind it: tokens of letters follow. It is served
// with the webhooks, even while no letters are sent: earlier ones may have left.
func (c *Config) StopPath() string {
	if u, err := url.Parse(c.StopURL()); err == nil && u.Path != "" {
		return u.Path + "/"
	}
	return defaultStop + "/"
}
