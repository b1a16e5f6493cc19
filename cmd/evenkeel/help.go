// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width of the help texts.
const helpWidth = 78

// paragraphs breaks the lines of a text anew, at blanks only: the name of a flag has hyphens. Paragraphs are parted by empty
// lines; one that is indented stays as it is.
func paragraphs(text string) string {
	parts := strings.Split(strings.Trim(text, "\n"), "\n\n")
	for i, part := range parts {
		if strings.HasPrefix(part, " ") {
			continue
		}
		parts[i] = strings.Join(wrap(strings.Join(strings.Fields(part), " "), helpWidth, 0), "\n")
	}
	return strings.Join(parts, "\n\n")
}

// usageTemplate is what follows the long text of a command.
const usageTemplate = `Usage:
{{- if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND [flags]
{{- else}}
  {{.UseLine}}
{{- end}}
{{- if .HasAvailableSubCommands}}

Commands:
{{- range .Commands}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}
{{- end}}{{end}}
{{- end}}
{{- if .HasExample}}

Examples:
{{.Example}}
{{- end}}
{{- if .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 78 | trimTrailingWhitespaces}}
{{- end}}
{{- if .HasAvailableSubCommands}}

Each command explains itself: {{.CommandPath}} COMMAND --help
{{- end}}
`

// newHelp is "evenkeel help COMMAND", for those who look there first. The list of commands leaves it out.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:    "help [COMMAND]",
		Short:  "Explain a command",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			about := cmd.Root()
			if len(args) > 0 {
				found, rest, err := about.Find(args)
				if err != nil || len(rest) > 0 || found == about {
					return usage("there is no such command: say one of %s", commandNames(about))
				}
				about = found
			}
			return about.Help()
		},
	}
}
