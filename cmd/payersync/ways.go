package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"payersync/cmd/payersync/internal/usage"
)

// also makes another command a way of this one: with the flag it does what the other does. It takes over the other's
// flags, text and examples, and refuses the flags of a way without it.
func also(c *cobra.Command, way string, other *cobra.Command) *cobra.Command {
	does, args, only := c.RunE, argsOf(c), map[string]bool{}
	short, _, _ := strings.Cut(other.Short, "; ")
	chosen := c.Flags().Bool(way, false, strings.ToLower(short[:1])+short[1:])
	other.Flags().VisitAll(func(f *pflag.Flag) {
		if c.Flags().Lookup(f.Name) == nil {
			c.Flags().AddFlag(f)
			only[f.Name] = true
		}
	})
	c.Args = func(cmd *cobra.Command, given []string) error {
		if *chosen {
			return argsOf(other)(cmd, given)
		}
		return args(cmd, given)
	}
	c.RunE = func(cmd *cobra.Command, given []string) (err error) {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			own := other.Flags().Lookup(f.Name)
			switch {
			case err != nil || !f.Changed || f.Name == way || f.Name == "yes" && own == nil: // a yes to no question does no harm
			case !*chosen && only[f.Name]:
				err = usage.Errorf("--%s goes with --%s; see %s --help", f.Name, way, cmd.CommandPath())
			case *chosen && own == nil:
				err = usage.Errorf("--%s does not go with --%s; see %s --help", f.Name, way, cmd.CommandPath())
			case *chosen && own != f:
				err = own.Value.Set(f.Value.String())
			}
		})
		switch {
		case err != nil:
			return err
		case *chosen:
			return other.RunE(cmd, given)
		}
		return does(cmd, given)
	}
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[usedWith+way] = other.Use
	if printsCSV(other) {
		c.Annotations[takesCSV+way] = ""
	}
	c.Long += "\n\nWith --" + way + argumentsOf(other.Use) + ":\n" + other.Long
	c.Example += "\n" + other.Example
	return c
}

// usedWith begins the annotation with the usage of a way. The name of its flag follows.
const usedWith = "with --"

// useOf returns the usage of a command, or of the chosen way.
func useOf(c *cobra.Command) string {
	if way := chosenWay(c); way != "" {
		return c.Name() + " --" + way + argumentsOf(c.Annotations[usedWith+way])
	}
	return c.Use
}

// chosenWay returns the flag of the chosen way of a command; "" for none.
func chosenWay(c *cobra.Command) string {
	for name := range c.Annotations {
		if way, is := strings.CutPrefix(name, usedWith); is && c.Flags().Changed(way) {
			return way
		}
	}
	return ""
}

// argumentsOf returns the arguments in a command's usage, with a space before them.
func argumentsOf(use string) string {
	_, arguments, _ := strings.Cut(use, " ")
	if arguments == "" {
		return ""
	}
	return " " + arguments
}

// wayOf returns the flag of the chosen way in a command line of ours; "" for none.
func wayOf(root *cobra.Command, words []string) string {
	c, _, err := root.Find(words[1:])
	for _, word := range words {
		if way, is := strings.CutPrefix(word, "--"); is && err == nil && c.Annotations[usedWith+way] != "" {
			return way
		}
	}
	return ""
}

// doesOf says what a command does, or a way of it.
func doesOf(c *cobra.Command, way string) string {
	if way == "" {
		return c.Short
	}
	does := c.Flags().Lookup(way).Usage
	return strings.ToUpper(does[:1]) + does[1:]
}

// argsOf returns the check of a command's arguments.
func argsOf(c *cobra.Command) cobra.PositionalArgs {
	if c.Args == nil {
		return cobra.NoArgs
	}
	return c.Args
}

// shows lets a command that groups others show something itself.
func shows(group, own *cobra.Command) *cobra.Command {
	if group.RunE = own.RunE; printsCSV(own) {
		asCSV(group)
	}
	group.Flags().AddFlagSet(own.Flags())
	group.Long += "\n\nWithout another word: " + strings.ToLower(own.Long[:1]) + own.Long[1:]
	return group
}
