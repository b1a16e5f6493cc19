// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// happening is what happens to servers at one time, for people.
type happening struct {
	At   time.Duration
	Does string // in a word or two
	Says string // all of it
}

// happenings are the events of a scenario in their order; what happens to several servers at a time is one.
func happenings(s *Scenario) []happening {
	events := slices.Clone(s.Events)
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.At - b.At) })
	var all []happening
	for len(events) > 0 {
		first := events[0]
		var servers []int
		events = slices.DeleteFunc(events, func(e Event) bool {
			same := e.At == first.At && e.Kind == first.Kind
			if same {
				servers = append(servers, e.Server+1)
			}
			return same
		})
		slices.Sort(servers)
		servers = slices.Compact(servers)
		does := first.Kind.does(len(servers))
		all = append(all, happening{
			At: first.At, Does: does, Says: fmt.Sprintf("%s: %s %s", first.At, serversOf(servers), does),
		})
	}
	return all
}

// serversOf names servers, with those in a row as a range.
func serversOf(numbers []int) string {
	var ranges []string
	for i := 0; i < len(numbers); {
		last := i
		for last+1 < len(numbers) && numbers[last+1] == numbers[last]+1 {
			last++
		}
		text := strconv.Itoa(numbers[i])
		if last > i {
			text += "–" + strconv.Itoa(numbers[last])
		}
		ranges, i = append(ranges, text), last+1
	}
	thing := "server "
	if len(numbers) > 1 {
		thing = "servers "
	}
	return thing + strings.Join(ranges, ", ")
}

// does says what so many servers do.
func (k EventKind) does(servers int) string {
	one := [...]string{"dies", "falls silent", "starts", "turns hollow", "drains", "leaves"}
	many := [...]string{"die", "fall silent", "start", "turn hollow", "drain", "leave"}
	if servers == 1 {
		return one[k]
	}
	return many[k]
}
