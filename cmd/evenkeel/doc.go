// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Command evenkeel looks after fleets of gRPC clients: it shows how they spread over a cluster, serves as a cluster's
// server, and tells what a client would see.
//
//	evenkeel demo                                       # a cluster, its clients, and a server that dies
//	evenkeel serve --listen 127.0.0.1:35000             # one server
//	evenkeel resolve chronicle+srv://prod.example       # the servers of a name
//	evenkeel resolve --watch dns:///api.example:8080    # the addresses of a name, as they come and go
//	evenkeel probe chronicle+srv://prod.example         # how busy they are, and which one would be picked
//	evenkeel connect --clients 60 chronicle://a,b,c     # hold sessions and watch them move
//
// # Configuration
//
// A connection string comes from the argument, from a file (--file), from standard input (-) or from the variable
// CHRONICLE_CONNECTION_STRING, so that no secret need stand in an argument list. Everything else is a flag; each
// command explains its own with --help. NO_COLOR and TERM=dumb are honoured.
//
// Results go to standard output, progress and warnings to standard error. With --json, standard output holds one JSON
// object a line, in which fields without a value are left out. Colours, tables that redraw themselves and lines broken
// to its width appear on a terminal only.
//
// # Errors
//
// An error is one sentence on standard error. The exit status is 0 when the work was done, and 2 when the command was
// called wrongly, so that calling it again cannot help: that includes a connection string that is empty, cannot be read
// or asks for what this version does not do, wherever it came from. It is 1 when the work failed, which includes a file
// that cannot be read. A command that runs until it is interrupted (Ctrl-C or SIGTERM) then ends as if its time had
// come, and a server drains first; the second interrupt ends it at once with 1.
//
// # Concurrency
//
// Each command runs one loop that owns what is shown; clients and servers report to it.
//
// # Specification
//
// The command uses the public packages of this module and nothing else, so whatever it does a program can do too.
package main
