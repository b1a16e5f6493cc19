// SPDX-FileCopyrightText: The Evenkeel authors
// SPDX-License-Identifier: MIT

package contract_test

import (
	"errors"
	"fmt"

	"github.com/evenkeel-go/evenkeel/contract"
)

func ExampleCompare() {
	needed, err := contract.ParseSchema(`
		package shop;
		message Order { string id = 1; int32 count = 2; }
		service Sales { rpc Buy (Order) returns (Order); rpc Close (Order) returns (Order); }`)
	if err != nil {
		fmt.Println(err)
		return
	}
	offered, err := contract.ParseSchema(`
		package shop;
		message Order { string id = 1; int64 count = 2; string note = 3; }
		service Sales { rpc Buy (Order) returns (Order); }`)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = contract.Compare(needed, offered, contract.SharedServices).Err()
	if incompatible, ok := errors.AsType[*contract.IncompatibleError](err); ok {
		for _, what := range incompatible.Incompatibilities {
			fmt.Println(what)
		}
	}
	// Output:
	// shop.Sales/Close: the method is missing
	// shop.Order.count: field 2 is int64 where int32 is needed
}
