package httpsource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"payersync/connector"
)

// checkAddress reads a setting that is an address. It goes into the address of every request, so it is a server and
// perhaps a path.
func checkAddress(given string) (string, error) {
	u, err := url.Parse(given)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.Opaque != "":
		return "", errors.New("is no address; write https://HOST, with a path where there is one, and without user, password or ?")
	case u.Scheme != "https" && (u.Scheme != "http" || !connector.IsLoopback(u.Hostname())):
		return "", errors.New("must begin with https://: other addresses would expose the key")
	}
	return strings.TrimSuffix(given, "/"), nil
}

var plainSetting = regexp.MustCompile(`^[A-Za-z0-9._ -]*$`)

// checkText reads a setting that is a text. By default it holds nothing that could lead a request to another place.
func checkText(given, pattern string) (string, error) {
	if pattern == "" {
		if !plainSetting.MatchString(given) {
			return "", errors.New("may hold letters, digits, dots, dashes and underscores only")
		}
		return given, nil
	}
	fits, err := regexp.Compile("^(?:" + pattern + ")$")
	if err != nil || !fits.MatchString(given) {
		return "", fmt.Errorf("does not look right; it must fit %s", pattern)
	}
	return given, nil
}

// baseOf returns the address of the API.
func (p *Profile) baseOf(c Config, env map[string]any) (*url.URL, error) {
	text := c.BaseURL
	if text == "" {
		var err error
		if text, err = p.base.words(env); err != nil {
			return nil, err
		}
	}
	if _, err := checkAddress(text); err != nil {
		return nil, fmt.Errorf("%s source: base %w", p.Name(), err)
	}
	return url.Parse(strings.TrimSuffix(text, "/"))
}

// sameHost reports whether a request stays at the API: its scheme, host and port.
func sameHost(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b) &&
		a.User == nil && a.Opaque == ""
}

// portOf is the port of an address, also of one that leaves it out.
func portOf(u *url.URL) string {
	return cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
}

// build makes a request, for the values of env.
func (s *Source) build(ctx context.Context, r request, env map[string]any) (*http.Request, error) {
	path, err := r.path.words(inPath(env))
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(s.base.String() + path)
	if err != nil || !sameHost(u, s.base) || u.Fragment != "" || slices.ContainsFunc(strings.Split(u.Path, "/"),
		func(part string) bool { return part == "." || part == ".." }) {
		return nil, errors.New("the path of the request is no path")
	}
	if u.RawQuery, err = queryOf(r.query, env); err != nil {
		return nil, err
	}
	var body []byte
	if r.body != nil {
		if s.keys != nil {
			if env, err = s.withKeys(ctx, env); err != nil {
				return nil, err
			}
		}
		v, err := filled(r.body, env)
		if err != nil {
			return nil, err
		}
		if body, err = json.Marshal(v); err != nil {
			return nil, errors.New("the body of the request is no JSON")
		}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(body)) //nolint:gosec // its host is that of base
	if err != nil {
		return nil, err
	}
	return req, s.setHeaders(req, r, env)
}

// withKeys adds the keys and the session, for the body of a request alone.
func (s *Source) withKeys(ctx context.Context, env map[string]any) (map[string]any, error) {
	out := copyOf(env)
	out["secret"] = s.keys
	if _, given := out["session"]; given {
		return out, nil
	}
	session, err := s.login(ctx)
	out["session"] = session
	return out, err
}

// follow makes the request for the next page from the address that the system gave. Another host is refused.
func (s *Source) follow(ctx context.Context, r request, next string, env map[string]any) (*http.Request, error) {
	ref, err := url.Parse(next)
	if err != nil {
		return nil, errors.New("the address of the next page is no address")
	}
	u := ref
	if !ref.IsAbs() {
		if strings.HasPrefix(next, "//") {
			return nil, errors.New("the address of the next page is on another host")
		}
		path := "/"
		if ref.Path == "" { // only another query
			if path, err = r.path.words(env); err != nil {
				return nil, err
			}
		}
		from, err := url.Parse(s.base.String() + path)
		if err != nil {
			return nil, errors.New("the path of the request is no path")
		}
		u = from.ResolveReference(ref)
	}
	if !sameHost(u, s.base) {
		return nil, errors.New("the address of the next page is on another host, which payersync does not follow")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	return req, s.setHeaders(req, r, env)
}

func (s *Source) setHeaders(req *http.Request, r request, env map[string]any) error {
	for _, headers := range []map[string]*template{s.profile.headers, r.headers} {
		for name, t := range headers {
			v, err := t.fill(env)
			if err != nil {
				return err
			}
			if words := fmt.Sprint(v); v != nil && !strings.ContainsAny(words, "\r\n") {
				req.Header.Set(name, words)
			}
		}
	}
	return nil
}

// queryOf writes a query, sorted. A space is %20: some systems refuse a +.
func queryOf(written map[string]*template, env map[string]any) (string, error) {
	var pairs []string
	for name, t := range written {
		v, err := t.fill(env)
		if err != nil {
			return "", err
		}
		if v != nil {
			pairs = append(pairs, escaped(name)+"="+escaped(fmt.Sprint(v)))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&"), nil
}

func escaped(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
