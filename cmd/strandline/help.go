package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// usageTemplate is the second half of each help page, below what the command
// does. It differs from cobra's in that a command which only holds others is
// not shown as one that could be run.
const usageTemplate = `Usage:
  {{if .HasAvailableSubCommands}}{{.CommandPath}} COMMAND{{else}}{{.UseLine}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

See {{.CommandPath}} COMMAND --help for more about one of them.{{end}}
`

// group makes a command that only holds others; a wrong name below it is a
// usage error. Its examples are the first of each child that calls it.
func group(use, short string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, SuggestionsMinimumDistance: 2, RunE: func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return c.Help()
		}
		hint := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q for %s%s", args[0], c.CommandPath(), hint)
	}}
	c.Args = cobra.ArbitraryArgs
	c.AddCommand(children...)
	var examples []string
	for _, child := range children {
		for line := range strings.SplitSeq(child.Example, "\n") {
			if strings.Contains(line, c.Name()+" "+child.Name()) {
				examples = append(examples, line)
				break
			}
		}
	}
	c.Example = strings.Join(examples, "\n")
	return c
}

// checkArguments makes the complaints about the number of arguments, of this
// command and all below it, say what to write.
func checkArguments(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if check(c, args) == nil {
				return nil
			}
			return usagef("wrong number of arguments (%d); write: %s", len(args), strings.TrimSuffix(c.UseLine(), " [flags]"))
		}
	}
	for _, child := range c.Commands() {
		checkArguments(child)
	}
}

// flagError makes cobra's complaint about a flag a usage error, without the
// names of the functions that found it.
func flagError(err error) error {
	text := err.Error()
	if before, detail, found := strings.Cut(text, ": strconv."); found {
		text = before + ": want a number"
		if strings.HasSuffix(detail, "out of range") {
			text = before + ": the number is out of range"
		}
	}
	if before, _, found := strings.Cut(text, ": time: "); found {
		text = before + ": want a time such as 500ms or 2s"
	}
	return usagef("%s", text)
}

// plural is a number and what it counts.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// require reports a flag that must be given and was not.
func require(flag, value, what string) error {
	if value == "" {
		return usagef("--%s is missing: it names %s", flag, what)
	}
	return nil
}
