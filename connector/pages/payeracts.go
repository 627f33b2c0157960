package pages

import (
	"context"
	"net/http"
	"time"

	"payersync/connector/office"
	"payersync/connector/syncer"
	"payersync/state"
)

type operator = syncer.Operator

var errReasonNeeded = syncer.ErrReasonNeeded

// freshFor is how old a sign-in may be for what cannot be undone.
const freshFor = 15 * time.Minute

// fresh fails unless somebody has signed in a short time ago, or typed the password since. back is
// where it was to be done.
func (v *visit) fresh(back string) error {
	if time.Since(time.Unix(v.pages.logins.GetInt64(v.Context(), keyBegan), 0)) < freshFor {
		return nil
	}
	is := problem{
		Status: http.StatusForbidden, Title: "Sign in once more", Sentence: "What cannot be undone takes a sign-in of the last 15 minutes. Nothing was changed.",
		Next: "Sign out, sign in again, and do it then.",
	}
	if v.way == byPassword {
		is.Title, is.Next, is.Path = "Type your password again", "Type your password, and do it then.", "/again"
		v.pages.logins.Put(v.Context(), keyBack, back)
		if err := v.keep(); err != nil {
			return err
		}
	}
	return is
}

// requestLink asks for a payer's signing link.
func (v *visit) requestLink() error {
	return v.act(false, func(m *office.Mandates, p state.Payer, by operator) (string, error) {
		if _, err := m.Request(v.Context(), p, by); err != nil {
			return "", err
		}
		return "The signing link is here. It was asked for in your name.", nil
	})
}

// askCancel shows what cancelling means, before anybody does it.
func (v *visit) askCancel() error {
	if err := v.fresh(v.URL.Path); err != nil && v.way == byPassword { // before a reason is typed
		return err
	}
	s, err := v.shownPayer()
	if err != nil {
		return err
	}
	if !s.Live {
		return problem{Status: http.StatusConflict, Title: "There is nothing to cancel", Sentence: "The payer has no mandate that holds.", Next: "Look at the payer once more."}
	}
	return v.show("cancel", "Cancel a mandate", s)
}

// cancel cancels a payer's mandate.
func (v *visit) cancel() error {
	if err := v.fresh(v.URL.Path); err != nil {
		return err
	}
	return v.act(true, func(m *office.Mandates, p state.Payer, by operator) (string, error) {
		return "The mandate is cancelled. Nothing can be collected under it any more.", m.Cancel(v.Context(), p, by)
	})
}

// noExplainer is for pages without mapping files.
func noExplainer(context.Context, string) (office.Explainer, error) {
	return office.Explainer{}, nil
}
