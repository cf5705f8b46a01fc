package pages

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Chart is numbers over time, drawn by the server as an SVG, with a table of the same
// for who can't see it.
type Chart struct {
	Title string
	// Unit stands behind each number, "" for mere counts.
	Unit string
	// At are the names of the points, such as hours.
	At     []string
	Series []Series
	// Small leaves out the axes' names.
	Small bool
	// Unsummed says that the sum of its numbers means nothing.
	Unsummed bool

	Width, Height float64
	Bars          []bar
	Lines         []line
	Ticks         []tick
	Names         []tick
}

// Series is one row of numbers, a number for each point. Tone is a class of the style
// sheet: main, good, bad or quiet.
type Series struct {
	Label, Tone string
	Values      []float64
}

// Spark is a chart so small that it is a table's cell.
type Spark struct {
	// Text says the same in words.
	Text  string
	Lines []line
}

const sparkWidth, sparkHeight = 120.0, 24.0

// sparkLine draws values below top.
func sparkLine(values []uint64, top uint64, tone string) line {
	points := make([]string, len(values))
	step := sparkWidth / float64(max(1, len(values)-1))
	for i, v := range values {
		points[i] = fmt.Sprintf("%.0f,%.1f", float64(i)*step, sparkHeight-1-(sparkHeight-2)*float64(v)/float64(max(1, top)))
	}
	return line{strings.Join(points, " "), tone}
}

type bar struct {
	X, Y, Width, Height float64
	Tone, Title         string
}

type line struct{ Points, Tone string }

// tick is a name at a place of an axis.
type tick struct {
	At   float64
	Text string
}

const (
	chartWidth, chartHeight = 720.0, 160.0
	smallHeight             = 48.0
)

// barChart stacks the series of each point upon each other.
func barChart(c Chart) Chart {
	c.size()
	highest := 0.0
	for i := range c.At {
		sum := 0.0
		for _, s := range c.Series {
			sum += s.Values[i]
		}
		highest = max(highest, sum)
	}
	top := c.scale(highest)
	step := c.Width / float64(max(1, len(c.At)))
	for i, at := range c.At {
		below := 0.0
		for _, s := range c.Series {
			if s.Values[i] <= 0 {
				continue
			}
			h := s.Values[i] / top * c.Height
			c.Bars = append(c.Bars, bar{
				X: float64(i)*step + step*.1, Y: c.Height - below - h, Width: step * .8, Height: h, Tone: s.Tone,
				Title: fmt.Sprintf("%s, %s: %s", at, s.Label, c.Amount(s.Values[i])),
			})
			below += h
		}
	}
	return c
}

// lineChart draws a line for each series.
func lineChart(c Chart) Chart {
	c.size()
	highest := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			highest = max(highest, v)
		}
	}
	top := c.scale(highest)
	step := c.Width / float64(max(1, len(c.At)-1))
	for _, s := range c.Series {
		points := make([]string, len(s.Values))
		for i, v := range s.Values {
			points[i] = fmt.Sprintf("%.1f,%.1f", float64(i)*step, c.Height-v/top*c.Height)
		}
		c.Lines = append(c.Lines, line{strings.Join(points, " "), s.Tone})
	}
	return c
}

func (c *Chart) size() {
	c.Width, c.Height = chartWidth, chartHeight
	if c.Small {
		c.Height = smallHeight
	}
	for i := 0; !c.Small && len(c.At) > 0 && i < 6; i++ {
		n := i * (len(c.At) - 1) / 5
		if len(c.Names) > 0 && c.Names[len(c.Names)-1].Text == c.At[n] {
			continue
		}
		c.Names = append(c.Names, tick{(float64(n) + .5) / float64(len(c.At)) * c.Width, c.At[n]})
	}
}

// scale returns the number at the top: the least of 1, 2 and 5 times a power of ten
// that is not below highest. A small chart, which names none, ends there.
func (c *Chart) scale(highest float64) float64 {
	if highest <= 0 {
		return 1
	}
	if c.Small {
		return highest
	}
	power := math.Pow(10, math.Floor(math.Log10(highest)))
	top := 10 * power
	for _, m := range []float64{1, 2, 5} {
		if highest <= m*power {
			top = m * power
			break
		}
	}
	for _, share := range []float64{1, .5} {
		c.Ticks = append(c.Ticks, tick{c.Height * (1 - share), c.Amount(top * share)})
	}
	return top
}

// Amount is a number as people read it, with its unit.
func (c Chart) Amount(v float64) string {
	text := amount(v)
	if c.Unit != "" {
		text += " " + c.Unit
	}
	return text
}

// Sum is all of it, for a headline.
func (c Chart) Sum() string {
	sum := 0.0
	for _, s := range c.Series {
		for _, v := range s.Values {
			sum += v
		}
	}
	return c.Amount(sum)
}

// amount writes whole numbers with thin groups of three, and others with three digits.
func amount(v float64) string {
	if v != math.Trunc(v) || math.Abs(v) >= 1e15 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return grouped(int64(v))
}

// grouped is 1234567 as 1,234,567.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// inBytes is a size as people read it.
func inBytes(n Size) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 {
		return strconv.FormatInt(int64(n), 10) + " B"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + units[i]
}
