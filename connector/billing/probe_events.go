package billing

import (
	"fmt"
	"slices"
	"strings"
)

// settingEvents names what is subscribed to, which is no part of the dialect.
const settingEvents = "webhook.events"

// noEvents notes that nothing shows how the service names events, and why.
func (p *prober) noEvents(why string) {
	if events := p.client.config.Events; len(events) > 0 {
		p.found = append(p.found, Finding{settingEvents, strings.Join(events, ", "), "", Unknown, why})
	}
}

// events holds the names of events in the configuration against those that subscriptions carry.
// The service took these, so another spelling among them is likely its own; a name that none of
// them carries may be right all the same, because somebody else may not have wanted it.
func (p *prober) events(shown []Subscription) {
	configured := p.client.config.Events
	carried := eventsOf(shown)
	if len(carried) == 0 {
		p.noEvents("no subscription is shown that carries events; payersync webhooks subscribe makes one, and a probe after it compares their names")
		return
	}
	if len(configured) == 0 {
		return
	}
	found, otherwise, absent := slices.Clone(configured), []string(nil), []string(nil)
	for i, name := range configured {
		if slices.Contains(carried, name) {
			continue
		}
		at := slices.IndexFunc(carried, func(c string) bool { return plainEvent(c) == plainEvent(name) })
		if at < 0 {
			absent = append(absent, name)
			continue
		}
		found[i], otherwise = carried[at], append(otherwise, name)
	}
	of := strings.Join(carried, ", ")
	f := Finding{settingEvents, strings.Join(configured, ", "), strings.Join(found, ", "), Likely, "subscriptions of the app carry the events by these names"}
	if len(otherwise) > 0 {
		f.How = fmt.Sprintf("subscriptions of the app carry %s, and %s in another spelling", of, strings.Join(otherwise, ", "))
	}
	if len(absent) > 0 {
		f.How = fmt.Sprintf("subscriptions of the app carry %s, and none carries %s in any spelling: compare it with the events that the provider documents", of, strings.Join(absent, ", "))
		if len(otherwise) == 0 {
			f.Found, f.Certainty = "", Unknown
		}
	}
	p.found = append(p.found, f)
}

// eventsOf returns the events of subscriptions, each once.
func eventsOf(all []Subscription) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.Events...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// plainEvent is a name without what spellings differ in: case, what stands between its words,
// and the plural.
func plainEvent(name string) string {
	plain := strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(name))
	return strings.TrimSuffix(plain, "s")
}
