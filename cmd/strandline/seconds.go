package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// seconds is a flag: a number of seconds, or a duration such as 1h30m.
type seconds float64

func (s *seconds) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }

func (s *seconds) Type() string { return "TIME" }

func (s *seconds) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if d, e := time.ParseDuration(text); err != nil && e == nil {
		v, err = d.Seconds(), nil
	}
	if err != nil || !(v > 0) || math.IsInf(v, 1) {
		return fmt.Errorf("%q is not a time above 0 in seconds", text)
	}
	*s = seconds(v)
	return nil
}
