// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

// Package connstring reads, builds and renders Chronicle connection strings.
//
//	chronicle://[user:password@]host[:port][,host[:port]...][/][?name=value[&name=value...]]
//	chronicle+srv://[user:password@]name[/][?name=value[&name=value...]]
//
// A program hands the text to Parse and reads the fields:
//
//	conn, err := connstring.Parse(os.Getenv("CHRONICLE_CONNECTION_STRING"))
//	if err != nil {
//		return err // names the part and the byte, never the text
//	}
//	log.Print(conn) // redacted
//	for _, host := range conn.Hosts {
//		dial(host.Name, host.Port)
//	}
//
// Parsing is pure and linear in the length of the text. It looks nothing up and opens no file.
//
// # Configuration
//
// The options of a string are fields of ConnString; what was not said is the zero value of its field, which is the
// default. New makes the same value from parts, under the same rules. TLS cannot be switched off from a string.
//
// Some things are brought to one form, so that equal servers have equal names: names are in lower case, IPv6
// addresses as RFC 5952 writes them, IPv4-mapped IPv6 addresses as the IPv4 address they stand for, ports without
// leading zeros. A final dot of a name is kept, because it changes what the name means: it is looked up as it stands,
// without a search list.
//
// # Secrets
//
// The password, the API key and the certificate password are of type Secret. Every way of showing a Secret or a
// ConnString hides them: String, every verb of package fmt, JSON and other text encodings, log records, errors. Only
// Secret.Reveal and ConnString.Unredacted give them away. A redacted string is refused by Parse, so that a string
// copied from a log fails with an error that says so.
//
// # Errors
//
// Parse and New return a *ParseError. It has a stable code, the part, the position, the reason and a hint, and no
// byte of what it was given; only names of known options stand in it.
//
// # Concurrency
//
// The functions of this package may be called concurrently. A ConnString is a plain value: it may be read
// concurrently as long as nobody changes it.
//
// # Specification
//
// The grammar follows RFC 3986 for escapes and the authority, RFC 6874 for zones of IPv6 addresses, and RFC 1035 and
// RFC 1123 for names, with underscores allowed. The files under testdata hold test vectors that any implementation of
// the same strings can run.
package connstring
