package connector_test

import (
	"testing"

	"payersync/connector"
)

func TestACommandLineNamesItsAccount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "",
		"payersync keeps the link.": "payersync keeps the link.",
		"run payersync plan show 3, or payersync plan approve 3":     "run payersync plan show --account acme 3, or payersync plan approve --account acme 3",
		"payersync payers same A c1":                                 "payersync payers same --account acme A c1",
		"the payersync ledger, payersync payers match.":              "the payersync ledger, payersync payers match --account acme.",
		"payersync webhooks subscribe --test":                        "payersync webhooks subscribe --account acme --test",
		"<code>payersync letters plan</code> or <b>":                 "<code>payersync letters plan --account acme</code> or <b>",
		`{"next":"payersync plan","detail":"leave out --account"}`:   `{"next":"payersync plan --account acme","detail":"leave out --account"}`,
		"payersync ledger copy --to file:database --account beta":    "payersync ledger copy --to file:database --account beta",
		"see payersync attention retry --help":                       "see payersync attention retry --help",
		"payersync accounts pause --undo acme; payersync nodes list": "payersync accounts pause --undo acme; payersync nodes list",
		"start payersync serve, then payersync sync --account acme":  "start payersync serve, then payersync sync --account acme",
		"payersync sync-all, payersyncs sync, payersync plane":       "payersync sync-all, payersyncs sync, payersync plane",
	} {
		if got := connector.NameAccount(text, "acme"); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
		if again := connector.NameAccount(connector.NameAccount(text, "acme"), "acme"); again != want {
			t.Errorf("%q, named twice, became %q", text, again)
		}
		if got := connector.NameAccount(text, ""); got != text {
			t.Errorf("without an account %q became %q", text, got)
		}
	}
}

func TestACommandLineNamesTheConfigurationThatItsUserNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, file, want string }{
		{"run payersync plan show 3, or payersync plan approve 3", "",
			"run payersync plan show 3, or payersync plan approve 3"},
		{"run payersync plan show 3, or payersync plan approve 3", "a/b.yaml",
			"run payersync plan show --config a/b.yaml 3, or payersync plan approve --config a/b.yaml 3"},
		{"payersync sync --config a.yaml", "b.yaml", "payersync sync --config a.yaml"},
		{"payersync sync --account acme", "node.yaml", "payersync sync --config node.yaml --account acme"},
		{"payersync accounts pause --undo acme", "node.yaml", "payersync accounts pause --config node.yaml --undo acme"},
		{"payersync serve", "my books.yaml", "payersync serve --config 'my books.yaml'"},
		{"payersync init acme; payersync demo", "a.yaml", "payersync init acme; payersync demo"},
		{`{"next":"payersync plan"}`, "it's.yaml", `{"next":"payersync plan"}`},
		{`{"next":"payersync plan"}`, `C:\books.yaml`, `{"next":"payersync plan"}`},
	} {
		got := connector.NameConfig(c.text, c.file)
		if got != c.want || connector.NameConfig(got, c.file) != c.want {
			t.Errorf("with %s, %q became %q, want %q", c.file, c.text, got, c.want)
		}
	}
}
