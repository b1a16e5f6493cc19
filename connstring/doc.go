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
// # Options
//
// Names are in any letter case, and each stands at most once. Any other name is an error.
//
//	name                    value              default  meaning
//	apiKey                  text               none     API key, sent with each call
//	auth                    none               -        no credentials, said aloud
//	loadBalancer            least-connections  the      how one of several
//	                        round-robin        first    servers is picked
//	                        random
//	skipTlsValidation       true, false        false    take any server certificate
//	srvNameServer           host[:port]        system,  the DNS server to ask, with
//	                                           port 53  chronicle+srv:// only
//	certificatePath         file               none     client certificate and key,
//	                                                    PEM or PKCS#12
//	certificatePassword     text               none     opens a PKCS#12 file
//	skipCompatibilityCheck  true, false        false    take servers that lack what
//	                                                    the client needs
//	disableTls              -                  -        refused: TLS cannot be
//	                                                    switched off from a string
//
// User, password, names and values are percent-encoded where they have characters that mean something in a string, or
// blanks: the password p@ss/w:rd is written p%40ss%2Fw%3Ard. A plus stays a plus. ConnString.Unredacted writes what
// New has made of the parts:
//
//	chronicle://app:p%40ss%2Fw%3Ard@node1:35000,node2:35001/?loadBalancer=random
//
// # Configuration
//
// The options of a string are fields of ConnString; what was not said is the zero value of its field, which is the
// default. New makes the same value from parts, under the same rules.
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
