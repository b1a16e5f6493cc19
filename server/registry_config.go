// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package server

import (
	"log/slog"
	"time"

	"github.com/evenkeel-go/evenkeel/contract"
	"github.com/evenkeel-go/evenkeel/internal/extension"
)

// RegistryConfig says what a registry is called and what it allows. The zero value is a stock server's behaviour with our
// bounds; zero and negative numbers mean their defaults, so no bound can be switched off by accident.
type RegistryConfig struct {
	// Name is what GetConnectedClients calls this server. Empty means the address that the client is connected to.
	Name string
	// Version and CommitSHA are what GetVersionInfo answers.
	Version, CommitSHA string

	// Contract is what this server serves besides the services of this package, in contract.New(pb.File_x_proto) or from a
	// descriptor set. CheckCompatibility compares it with what a client needs, and GetDescriptorSet answers with its text.
	// Nil means that nothing is declared: then only the ConnectionService is compared, and GetDescriptorSet is not there.
	Contract *contract.Contract
	// ContractComplete says that this server serves nothing but what Contract says, so that a client that needs another
	// service is told. Otherwise only services that both sides have are compared: stock clients send the contract of a
	// whole event store, and must be able to connect.
	ContractComplete bool
	// ProtocolVersion is what CheckCompatibility tells of this server's version of the contract. Empty by default.
	ProtocolVersion string

	// Peers are the other servers of the cluster: with them the lists of clients are those of the whole cluster. The zero
	// value means none.
	Peers PeersConfig
	// Logger gets what an operator should know of peers; nil means silence.
	Logger *slog.Logger

	// KeepAliveInterval is how often the server sends a keep-alive to each client. Default 1 s; at least 1 ms.
	KeepAliveInterval time.Duration
	// StaleAfter is how long a client may be silent before it is removed and told. Default 5 s.
	StaleAfter time.Duration

	// SendTimeout is how long a client may leave no room for a message of the server's before its stream is ended, since
	// it does not read. Default 20 s.
	SendTimeout time.Duration
	// ObserveInterval is the least time between two lists for an observer of the connected clients. Default 1 s.
	ObserveInterval time.Duration
	// MaxObservers bounds the observers of the connected clients. Default 64.
	MaxObservers int
	// MaxObserversPerAddress is the same for one peer address. Default 16.
	MaxObserversPerAddress int
	// MaxLists bounds the answers to GetConnectedClients that are being made or are on their way; beyond it a call is
	// refused with RESOURCE_EXHAUSTED. Default 64.
	MaxLists int
	// MaxListsPerAddress is the same for one peer address. Default 16.
	MaxListsPerAddress int
	// DrainPeriod is how long Drain takes to end the Connect streams, evenly spread. Default 5 s.
	DrainPeriod time.Duration

	// Capacity is how many clients this server takes in proportion to others, told to the clients that pick one: with 2 it
	// gets twice the clients of a server with 1. It counts in place of the SRV weight of this server. At most 1000000; 0
	// tells nothing: then the weight counts, or 1 where all weights are equal.
	Capacity int

	// MaxClients bounds the connected clients; beyond it a Connect is refused with RESOURCE_EXHAUSTED. Default 65536.
	MaxClients int
	// MaxClientsPerAddress is the same for one peer address. Default 16384: many clients may be behind one address.
	MaxClientsPerAddress int

	// ReservationTTL is how long a reservation counts when its client does not come. Default 30 s.
	ReservationTTL time.Duration
	// MaxReservations bounds the live reservations in all. Default 1024.
	MaxReservations int
	// MaxReservationsPerAddress bounds the live reservations of one peer address. Default 256.
	MaxReservationsPerAddress int
	// ReservationRate is how many reservations a second one peer address may make. Default 200.
	ReservationRate float64
	// ReservationBurst is how many of them it may make at once. Default 256.
	ReservationBurst int
}

// withDefaults returns the configuration with its defaults filled in.
func (c RegistryConfig) withDefaults() RegistryConfig {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.KeepAliveInterval = max(positiveOr(c.KeepAliveInterval, time.Second), time.Millisecond)
	c.StaleAfter = positiveOr(c.StaleAfter, 5*time.Second)
	c.SendTimeout = positiveOr(c.SendTimeout, 20*time.Second)
	c.ObserveInterval = positiveOr(c.ObserveInterval, time.Second)
	c.MaxObservers = positiveOr(c.MaxObservers, 64)
	c.MaxObserversPerAddress = positiveOr(c.MaxObserversPerAddress, 16)
	c.MaxLists = positiveOr(c.MaxLists, 64)
	c.MaxListsPerAddress = positiveOr(c.MaxListsPerAddress, 16)
	c.DrainPeriod = positiveOr(c.DrainPeriod, 5*time.Second)
	c.Capacity = min(max(c.Capacity, 0), extension.MaxCapacity)
	c.MaxClients = positiveOr(c.MaxClients, 65536)
	c.MaxClientsPerAddress = positiveOr(c.MaxClientsPerAddress, 16384)
	c.ReservationTTL = positiveOr(c.ReservationTTL, 30*time.Second)
	c.MaxReservations = positiveOr(c.MaxReservations, 1024)
	c.MaxReservationsPerAddress = positiveOr(c.MaxReservationsPerAddress, 256)
	c.ReservationRate = positiveOr(c.ReservationRate, 200)
	c.ReservationBurst = positiveOr(c.ReservationBurst, 256)
	return c
}

// positiveOr returns the value, or the default where the value is zero, negative or not a number.
func positiveOr[T ~int | ~int64 | ~uint32 | ~float64](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}
