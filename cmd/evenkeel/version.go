// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package main

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// versionReport is the object of version --json.
type versionReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

const versionHelp = `
Print the version of the command, the commit it was built from where that is known, the version of Go and the
platform.

With --json, one object; fields without a value are left out:

  version   the version of the module, (devel) when built from a checkout
  revision  the commit, where it is known
  modified  true when files had been changed since that commit, else not
            there
  go        the version of Go
  platform  the operating system and the processor`

const versionExamples = `  evenkeel version
  evenkeel version --json`

func newVersion(c *console) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    paragraphs(versionHelp),
		Example: versionExamples,
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			report := readVersion()
			if asJSON {
				c.object(report)
				return nil
			}
			c.printf("%s", report)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func readVersion() versionReport {
	report := versionReport{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return report
	}
	if build.Main.Version != "" {
		report.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			report.Revision = s.Value
		case "vcs.modified":
			report.Modified = s.Value == "true"
		}
	}
	return report
}

// String returns one line for a person to read.
func (v versionReport) String() string {
	const shortRevision = 12
	parts := []string{"evenkeel", v.Version}
	if v.Revision != "" {
		revision := v.Revision[:min(shortRevision, len(v.Revision))]
		if v.Modified {
			revision += ", modified"
		}
		parts = append(parts, "("+revision+")")
	}
	return strings.Join(append(parts, v.Go, v.Platform), " ")
}
