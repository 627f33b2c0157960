package main

import (
	"slices"
	"strings"
)

// formerCommands are the earlier names of commands, and their present ones. Scripts that use an earlier name go on to
// work, and are told the present name.
var formerCommands = map[string]string{
	"payers drift take":      "payers drift --take",
	"payers drift send":      "payers drift --send",
	"payers drift ignore":    "payers drift --ignore",
	"payers match import":    "payers match --import",
	"payers match finish":    "payers match --finish",
	"ledger unforget":        "ledger forget --undo",
	"webhooks subscription":  "webhooks subscribe --show",
	"webhooks send-test":     "webhooks subscribe --test",
	"webhooks shapes":        "webhooks list --shapes",
	"mapping coverage":       "mapping check --coverage",
	"mapping show":           "mapping history --show",
	"mapping diff":           "mapping history --diff",
	"mapping schema":         "mapping fields --schema",
	"writeback status":       "writeback",
	"environment show":       "environment",
	"pages users list":       "pages users",
	"letters arrived":        "letters send --arrived",
	"mandates export":        "mandates list --export",
	"mandates sent":          "mandates handover --sent",
	"connections separate":   "connections move --separate",
	"attention give-up":      "attention close --give-up",
	"environment trust":      "environment move --trust",
	"accounts show":          "accounts list --show",
	"accounts resume":        "accounts pause --undo",
	"accounts rewrap":        "accounts key --rewrap",
	"approve":                "plan approve",
	"payers adopt":           "payers same",
	"payers link":            "payers same",
	"payers match accept":    "payers same",
	"payers match reject":    "payers different",
	"payers merge":           "payers same",
	"payers rekey":           "payers moved",
	"payers unlink":          "payers different",
	"plans":                  "plan list",
	"plans list":             "plan list",
	"plans reject":           "plan reject",
	"plans show":             "plan show",
	"mandates letters again": "letters send --again", "mandates letters resume": "letters pause --undo",
	"mandates letters test": "letters preview --test",
	"mandates letters":      "letters",
}

// presentNames replaces an earlier name of a command among arguments. It returns both names, or "" for a present name.
func presentNames(args []string) (present []string, from, to string) {
	at := placesOfWords(args)
	if len(at) > 0 && args[at[0]] == "help" {
		at = at[1:]
	}
	for n := min(len(at), 3); n > 0; n-- {
		name := strings.Join(pick(args, at[:n]), " ")
		if to, ok := formerCommands[name]; ok {
			present = slices.Clone(args[:at[0]])
			present = append(present, strings.Fields(to)...)
			for i := at[0]; i < len(args); i++ {
				if !slices.Contains(at[:n], i) {
					present = append(present, args[i])
				}
			}
			return present, name, to
		}
	}
	return args, "", ""
}

// placesOfWords returns the places of the first arguments that are no flags. Only the flags of all commands come
// before the name of a command, or within it.
func placesOfWords(args []string) (at []int) {
	for i := 0; i < len(args) && len(at) < 4; i++ {
		switch arg := args[i]; {
		case arg == "--":
			return at
		case arg == "--config", arg == "--account", arg == "--output":
			i++
		case !strings.HasPrefix(arg, "-"):
			at = append(at, i)
		}
	}
	return at
}

// pick returns the arguments at the places.
func pick(args []string, at []int) (out []string) {
	for _, i := range at {
		out = append(out, args[i])
	}
	return out
}
