// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/evenkeel-go/evenkeel/connstring"
)

// ParseClients reads a list of clients: one a line, the id and the secret with a colon between them. The secret begins after
// the first colon and goes to the end of the line; blanks around the line do not count, nor does a byte order mark at the
// beginning of the text. Lines that are empty or begin with # are left out. The error names the line and never what is in it.
func ParseClients(text string) ([]AuthClient, error) {
	var clients []AuthClient
	seen := make(map[string]bool)
	number := 0
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, secret, ok := strings.Cut(line, ":")
		switch {
		case !ok || id == "" || secret == "":
			return nil, fmt.Errorf("line %d is no client: write its id, a colon and its secret", number)
		case seen[id]:
			return nil, fmt.Errorf("line %d has the id of an earlier line", number)
		}
		seen[id] = true
		clients = append(clients, AuthClient{ID: id, Secret: connstring.NewSecret(secret)})
	}
	if len(clients) == 0 {
		return nil, errors.New("there is no client in it: write one a line, its id, a colon and its secret")
	}
	return clients, nil
}
