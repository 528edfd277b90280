package config

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"strandline/datasets"
)

// Client says that the clients in Prefix enter at Frontend.
type Client struct {
	Prefix   netip.Prefix `yaml:"prefix,required"`
	Frontend string       `yaml:"frontend,required"`
}

// clientsHeader is the first line of a clients file.
const clientsHeader = "prefix,frontend"

// readClients parses and checks a clients CSV. Lines that start with # are
// comments.
func readClients(file string, src []byte, frontends []string) ([]Client, error) {
	if err := binaryProblem(file, src); err != nil {
		return nil, err
	}
	src = bytes.TrimPrefix(src, []byte("\ufeff")) // spreadsheets put it there
	cr := csv.NewReader(bytes.NewReader(src))
	cr.Comment, cr.TrimLeadingSpace, cr.FieldsPerRecord = '#', true, -1
	header, err := cr.Read()
	if err != nil || strings.Join(header, ",") != clientsHeader {
		return nil, &datasets.Problem{File: file, Line: 1, Msg: "has no header", Fix: "begin it with the line " + clientsHeader}
	}
	var clients []Client
	var places [][2]place
	var errs []error
	for {
		rec, err := cr.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if pe, ok := errors.AsType[*csv.ParseError](err); ok {
			errs = append(errs, &datasets.Problem{File: file, Line: pe.Line, Column: pe.Column,
				Msg: "is not CSV: " + pe.Err.Error(), Fix: "write " + clientsHeader + " without quotes"})
			break
		}
		client, at, problem := clientOf(cr, rec)
		if problem != nil {
			problem.File = file
			errs = append(errs, problem)
			continue
		}
		clients, places = append(clients, client), append(places, at)
	}
	errs = append(errs, checkClients(clients, frontends, func(i int, column string) datasets.Problem {
		at := places[i][strings.Index(clientsHeader, column)/len("prefix,")]
		return datasets.Problem{File: file, Line: at.line, Column: at.column, Key: column}
	})...)
	return clients, errors.Join(errs...)
}

// clientOf reads one row and where its two cells stand.
func clientOf(cr *csv.Reader, rec []string) (Client, [2]place, *datasets.Problem) {
	line, column := cr.FieldPos(0)
	if len(rec) != 2 {
		return Client{}, [2]place{}, &datasets.Problem{Line: line, Column: column,
			Msg: fmt.Sprintf("has %d columns", len(rec)), Fix: "write " + clientsHeader}
	}
	prefix, err := netip.ParsePrefix(rec[0])
	if err != nil {
		return Client{}, [2]place{}, &datasets.Problem{Line: line, Column: column, Key: "prefix",
			Msg: fmt.Sprintf("is %q, want an IP prefix", rec[0]), Fix: "write it like 192.0.2.0/24 or 2001:db8::/48"}
	}
	_, second := cr.FieldPos(1)
	return Client{prefix, rec[1]}, [2]place{{line, column}, {line, second}}, nil
}

// checkClients reports prefixes with bits beyond their length, prefixes given
// twice and unknown frontends. at returns a problem that points to a column of
// client i.
func checkClients(clients []Client, frontends []string, at func(i int, column string) datasets.Problem) []error {
	var errs []error
	add := func(i int, column, fix, msg string, args ...any) {
		p := at(i, column)
		p.Msg, p.Fix = fmt.Sprintf(msg, args...), fix
		errs = append(errs, &p)
	}
	seen := make(map[netip.Prefix]int, len(clients))
	for i, c := range clients {
		first, twice := seen[c.Prefix]
		switch {
		case c.Prefix != c.Prefix.Masked():
			add(i, "prefix", "write "+c.Prefix.Masked().String(), "%s has bits beyond its length", c.Prefix)
		case c.Prefix.Addr().Is4In6():
			add(i, "prefix", "write the IPv4 prefix itself", "%s is IPv4 written as IPv6", c.Prefix)
		case twice:
			add(i, "prefix", "keep one", "%s is given twice, first on line %d", c.Prefix, at(first, "prefix").Line)
		}
		seen[c.Prefix] = i
		if !slices.Contains(frontends, c.Frontend) {
			add(i, "frontend", choose(c.Frontend, frontends), "%q is not a frontend of the world", c.Frontend)
		}
	}
	return errs
}

// choose is the fix for a name that is not among the known ones.
func choose(name string, known []string) string {
	if guess := closest(name, known); guess != "" {
		return fmt.Sprintf("did you mean %s?", guess)
	}
	known = slices.DeleteFunc(slices.Clone(known), func(k string) bool { return k == "" })
	if len(known) == 0 {
		return "there is none to choose"
	}
	const most = 20
	if len(known) > most {
		return fmt.Sprintf("choose one of %s, and %d more", strings.Join(known[:most], ", "), len(known)-most)
	}
	return "choose one of " + strings.Join(known, ", ")
}
