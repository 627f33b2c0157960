package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payersync/connector/letters"
	"payersync/connector/mail"
)

func TestNobodyWritesToPayersUnlessSomebodySaysWho(t *testing.T) {
	t.Parallel()
	s, err := load(t, minimal).LetterSettings("here")
	if err != nil {
		t.Fatal(err)
	}
	if s.Sender != letters.SenderNobody || s.Post != nil || s.Templates != nil {
		t.Errorf("letters go by %+v", s)
	}
}

func TestSettingsOfLettersAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	cfg, err := Load("testdata/config/whole.yaml", environment)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Connections[0].Letters = ConnectionLetters{Language: "de", TimeZone: "Europe/Berlin",
		Holidays: []string{"2026-05-25"}}
	s, err := cfg.LetterSettings("here")
	if err != nil {
		t.Fatal(err)
	}
	if s.Sender != letters.SenderPayersync || s.Address != "accounts@harbour.example" ||
		s.ReplyTo != "accounts@harbour.example" || !slices.Equal(s.Own, []string{"harbour.example"}) {
		t.Errorf("the sender is %+v", s)
	}
	if !slices.Equal(s.Steps, []int{0, 3, 7, 14, 30}) || s.Window.From != 8*60+30 || s.PerMinute != 20 ||
		s.PerDay != 500 || s.Test {
		t.Errorf("letters leave as %+v", s)
	}
	if s.Zones["acme"].String() != "Europe/Berlin" || s.Language["acme"] != "de" || len(s.Holidays[""]) != 1 ||
		len(s.Holidays["acme"]) != 1 {
		t.Errorf("of the connection it says %v, %v, %v", s.Zones, s.Language, s.Holidays)
	}
	if want := filepath.Join("testdata", "config", "payersync.db.letters"); s.Journal != want {
		t.Errorf("the journal is %s, want %s", s.Journal, want)
	}
	server, ok := s.Post.(*mail.Server)
	if !ok || server.Addr != "smtp.harbour.example:465" || server.TLS != mail.ImplicitTLS || server.HelloName != "here" ||
		server.Username != "client-1" || server.Password.Expose() != "hunter2-secret" {
		t.Errorf("they are handed to %+v", s.Post)
	}
	if s.Templates.Version() == "" {
		t.Error("the templates have no version")
	}
}

func TestAServiceElsewhereGetsRealLetters(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]bool{
		minimal: true,
		strings.Replace(minimal, "http://127.0.0.1:8090/api", "https://api.example.com/api",
			1): false,
		strings.Replace(strings.Replace(minimal, "http://127.0.0.1:8090/api", "https://api.example.com/api", 1), "billing:",
			"billing:\n  profile: sandbox", 1): true,
	} {
		if s, err := load(t, yaml).LetterSettings(""); err != nil || s.Test != want {
			t.Errorf("of\n%s\nit says that letters are tests: %t, %v", yaml, s.Test, err)
		}
	}
}
