package sandbox

import (
	"embed"
	"encoding/json"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payersync/connector"
)

//go:embed web/*.html web/style.css
var webFiles embed.FS

var pages = template.Must(template.ParseFS(webFiles, "web/*.html"))

// shownCustomers is how many customers the operator's page lists, newest first.
const shownCustomers = 100

// removed are the former addresses for changing a running sandbox, with the flags in their place.
var removed = map[string]string{
	"/sandbox/switches":      "--profile NAME --switch NAME=VALUE",
	"/sandbox/faults":        faultFlag,
	"/sandbox/faults/clear":  faultFlag,
	"/sandbox/view":          "--view MEMBER=VALUE",
	mailFaultPath:            mailFaultFlag,
	mailFaultPath + "/clear": mailFaultFlag,
}

const (
	faultFlag     = "--fault KIND,FIELD=VALUE"
	mailFaultFlag = "--mail-fault KIND,FIELD=VALUE"
	mailFaultPath = "/sandbox/letters/faults"
)

// routeWeb sets up everything: the service below /api/, and the pages and
// control endpoints around it, whose forms take no posts from other sites.
func (s *Sandbox) routeWeb() {
	human := http.NewServeMux()
	human.HandleFunc("GET /{$}", s.operatorPage)
	human.HandleFunc("GET /sign/{id}", s.signPage)
	human.HandleFunc("POST /sign/{id}", s.signForm)
	human.HandleFunc("GET "+AuthorizePath, s.consentPage)
	human.HandleFunc("POST "+AuthorizePath, s.consentForm)
	human.HandleFunc("POST /sandbox/mandates/{id}/{act}", s.control)
	human.HandleFunc("GET /sandbox/customers",
		func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Customers()) })
	human.HandleFunc("GET /sandbox/requests",
		func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, readable(s.Requests())) })
	human.HandleFunc("GET /sandbox/style.css", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, webFiles, "web/style.css")
	})
	for address, flags := range removed {
		human.HandleFunc(address, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "This address was removed. Stop the sandbox and start it again with "+flags, http.StatusGone)
		})
	}
	s.routeLetters(human)
	all := http.NewServeMux()
	all.HandleFunc(apiPrefix, s.serveAPI)
	all.Handle("/", guarded(http.NewCrossOriginProtection().Handler(human)))
	s.web = all
}

// named answers only to the sandbox's own names. With DNS rebinding, a foreign page's name may lead to this
// machine, and the page could read and act here in a visitor's browser. Requests by IP address are safe.
func (s *Sandbox) named(next http.Handler) http.Handler {
	names := append([]string{"localhost"}, s.opt.Hosts...)
	if u, err := url.Parse(s.opt.PublicURL); err == nil {
		names = append(names, u.Hostname())
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if net.ParseIP(host) == nil &&
			!slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, host) }) {
			http.Error(w, "this sandbox answers to localhost and to addresses; its flag --host NAME adds a name",
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// pagePolicy limits the requests of pages. There is no form-action: a signed form leads on to the platform's
// own address.
const pagePolicy = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'"

func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pagePolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// operatorPage lists customers and mandates with a button for every act that is
// possible.
func (s *Sandbox) operatorPage(w http.ResponseWriter, _ *http.Request) {
	type row struct {
		Customer
		CanSign, CanApprove, CanCancel, CanReinstate, CanChangeBank bool
		Latest                                                      *Mandate
		Link                                                        string // of the mandate, on this server
	}
	var letters *int
	if s.opt.Letters != nil {
		letters = new(s.opt.Letters.Received())
	}
	customers, total := s.newest(shownCustomers)
	rows := make([]row, len(customers))
	for i, c := range customers {
		rows[i].Customer = c
		if len(c.Mandates) == 0 {
			continue
		}
		m := &c.Mandates[len(c.Mandates)-1]
		rows[i].Latest, rows[i].Link = m, strings.TrimPrefix(m.URL, s.opt.PublicURL)
		rows[i].CanSign = m.Status == connector.MandateCreated
		rows[i].CanApprove = m.Status == connector.MandatePending || m.Status == connector.MandateMigrating
		rows[i].CanCancel = slices.Contains(uncancelled, m.Status)
		rows[i].CanReinstate = m.Status == connector.MandateCancelled
		rows[i].CanChangeBank = m.Status == connector.MandatePending || m.Status == connector.MandateActive
	}
	render(w, "operator.html", struct {
		Rows           []row
		Total, Pending int
		Letters        *int   // nil without a mail server
		Secret         string // of webhooks; nothing here is worth hiding
	}{rows, total, s.Pending(), letters, s.WebhookSecret().Expose()})
}

// newest returns up to n customers, newest first, and how many there are.
func (s *Sandbox) newest(n int) ([]Customer, int) {
	defer s.lock()()
	var out []Customer
	for _, c := range slices.Backward(s.order) {
		if len(out) == n {
			break
		}
		out = append(out, s.view(c))
	}
	return out, len(s.order)
}

// invitation is the content of a signing address for a payer.
type invitation struct {
	Sender, Name, Status string
	CanSign, Expired     bool
}

// signPage is the payer's page at a signing link.
func (s *Sandbox) signPage(w http.ResponseWriter, r *http.Request) {
	seen, err := s.invitation(r.PathValue("id"))
	if err != nil {
		http.Error(w, "There is no mandate at this address.", http.StatusNotFound)
		return
	}
	status := http.StatusOK
	if seen.Expired {
		status = http.StatusGone
	}
	renderStatus(w, status, "sign.html", seen)
}

// invitation returns the payer of a signing address, and the possible acts there. The status is blank for the
// address of a customer without a mandate.
func (s *Sandbox) invitation(id string) (invitation, error) {
	defer s.lock()()
	if m, open := s.linked(id); m != nil {
		waits := m.Status == connector.MandateCreated
		return invitation{sender, s.customers[m.CustomerID].name, m.Status.Label(), waits && open, waits && !open}, nil
	}
	c, ok := s.customers[id]
	if !ok {
		return invitation{}, ErrUnknown
	}
	var status connector.MandateStatus
	if m := c.latest(); m != nil {
		status = m.Status
	}
	return invitation{sender, c.name, status.Label(), status == "" || status == connector.MandateCreated, false}, nil
}

// signForm signs, and sends the payer back to the platform.
func (s *Sandbox) signForm(w http.ResponseWriter, r *http.Request) {
	if seen, err := s.invitation(r.PathValue("id")); err == nil && seen.Expired {
		s.signPage(w, r)
		return
	}
	id := s.signable(r.PathValue("id"))
	if err := s.Sign(id); err != nil {
		writeError(w, err)
		return
	}
	back := "/sign/" + id
	if m, ok := s.Mandate(id); ok && m.RedirectURL != "" {
		back = m.RedirectURL
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

// signable returns the mandate of a signing address. A customer's own address, as create answers give it,
// stands for the latest mandate, and creates one if there is none.
func (s *Sandbox) signable(id string) string {
	defer s.lock()()
	if m, _ := s.linked(id); m != nil {
		return m.ID
	}
	c, ok := s.customers[id]
	if !ok {
		return id
	}
	if m := c.latest(); m != nil {
		return m.ID
	}
	return s.openMandate(c, connector.MandateCreated, "").ID
}

// control is POST /sandbox/mandates/{id}/{sign|approve|cancel|reinstate|bank}. Cancel
// is the bank's; the form field reason names the failureReason. Browsers are led back
// to the operator's page, programs get the mandate as JSON.
func (s *Sandbox) control(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	id := r.PathValue("id")
	acts := map[string]func() error{
		"sign":      func() error { return s.Sign(id) },
		"approve":   func() error { return s.Approve(id) },
		"cancel":    func() error { return s.BankCancel(id, bankReason(r)) },
		"reinstate": func() error { return s.Reinstate(id) },
		"bank": func() (err error) {
			id, err = s.ChangeBank(id)
			return err
		},
	}
	act, ok := acts[r.PathValue("act")]
	if !ok {
		writeError(w, ErrUnknown)
		return
	}
	if err := act(); err != nil {
		writeError(w, err)
		return
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	m, _ := s.Mandate(id) // acted on just now
	writeJSON(w, m)
}

// readableRequest is a request whose body a person can read.
type readableRequest struct {
	Request
	Body string `json:"body,omitempty"`
}

func readable(requests []Request) []readableRequest {
	out := make([]readableRequest, len(requests))
	for i, r := range requests {
		out[i] = readableRequest{r, string(r.Body)}
	}
	return out
}

func bankReason(r *http.Request) string {
	if reason := r.PostFormValue("reason"); reason != "" {
		return reason
	}
	return "INSTRUCTION_CANCELLED_BY_PAYER"
}

func render(w http.ResponseWriter, page string, data any) {
	renderStatus(w, http.StatusOK, page, data)
}

func renderStatus(w http.ResponseWriter, status int, page string, data any) {
	var out strings.Builder
	if err := pages.ExecuteTemplate(&out, page, data); err != nil {
		http.Error(w, "The page could not be made.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(out.String())) // a closed browser does not matter
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, "The state could not be written as JSON.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // as above
}

func writeError(w http.ResponseWriter, err error) {
	status := http.StatusConflict
	if errors.Is(err, ErrUnknown) {
		status = http.StatusNotFound
	}
	writeStatus(w, status, err)
}

func writeStatus(w http.ResponseWriter, status int, err error) {
	body, _ := json.Marshal(map[string]string{"error": err.Error()}) // a string
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // as above
}
