package aigateway

import (
	"errors"
	"math/big"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// Money is an amount in the currency of the configured prices, exact: in units of
// 10^-12. A price has at most 6 decimals and is for a million tokens, so that what a
// token costs is a whole number of these units.
type Money int64

const (
	// decimals are those of Money.
	decimals = 12
	// one is one unit of the currency.
	one Money = 1_000_000_000_000
	// MaxMoney is the largest budget that can be set.
	MaxMoney = 1_000_000 * one
)

var errMoney = errors.New("not an amount")

// parseMoney reads a decimal such as 5, 0.15 or 1e-6 with at most so many places.
func parseMoney(text string, places int) (Money, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok || len(text) > 40 || strings.ContainsAny(text, "/_xXbBoOpPnN") {
		return 0, errMoney
	}
	scaled := new(big.Rat).Mul(r, new(big.Rat).SetInt64(power(places)))
	if !scaled.IsInt() || !scaled.Num().IsInt64() {
		return 0, errMoney
	}
	n := scaled.Num().Int64()
	if n < 0 || n > int64(MaxMoney)/power(decimals-places) {
		return 0, errMoney
	}
	return Money(n * power(decimals-places)), nil
}

func power(n int) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

// MoneyOf is the amount whose shortest decimal f is: what somebody who wrote it in JSON
// meant. It fails for what is negative, over MaxMoney, or has more than 6 decimals.
func MoneyOf(f float64) (Money, error) {
	return parseMoney(strconv.FormatFloat(f, 'f', -1, 64), 6)
}

// Float is the nearest number: for showing.
func (m Money) Float() float64 {
	f, _ := strconv.ParseFloat(m.String(), 64)
	return f
}

// String is the exact decimal, without zeros at its end.
func (m Money) String() string {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	fraction := strconv.FormatInt(int64(m%one), 10)
	fraction = strings.TrimRight(strings.Repeat("0", decimals-len(fraction))+fraction, "0")
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + strconv.FormatInt(int64(m/one), 10) + fraction
}

// numeric is m as PostgreSQL has it.
func (m Money) numeric() pgtype.Numeric {
	return pgtype.Numeric{Int: big.NewInt(int64(m)), Exp: -decimals, Valid: true}
}

// moneyFrom reads what the database has; more than fits is the most that does.
func moneyFrom(n pgtype.Numeric) Money {
	if !n.Valid || n.Int == nil {
		return 0
	}
	v := new(big.Int).Set(n.Int)
	switch shift := int64(n.Exp) + decimals; {
	case shift >= 0:
		v.Mul(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(shift), nil))
	default:
		v.Quo(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(-shift), nil))
	}
	if !v.IsInt64() {
		return Money(1<<63 - 1)
	}
	return Money(v.Int64())
}

// Price is what tokens cost, in Money a token.
type Price struct{ Input, Output Money }

// of is the price of so many tokens. Counts are at most openai.MaxTokens, prices at most
// maxPrice, so that the product fits.
func (p Price) of(u Usage) Money { return p.Input*Money(u.Input) + p.Output*Money(u.Output) }

// maxPrice is the largest price of a million tokens, in units of the currency.
const maxPrice = 10_000

// Usage is how many tokens a call used.
type Usage struct{ Input, Output int64 }
