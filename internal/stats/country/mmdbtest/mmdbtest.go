// Package mmdbtest writes small country databases for tests, in MaxMind's format
// (https://maxmind.github.io/MaxMind-DB/, version 2.0).
package mmdbtest

import (
	"bytes"
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
)

// Types of the format's data section.
const (
	typeString = 2
	typeUint16 = 5
	typeUint32 = 6
	typeMap    = 7
	typeUint64 = 9
	typeArray  = 11
)

// File is the content of a database that says of each network's addresses what
// its value is: a string, or a map of strings to such values.
func File(networks map[netip.Prefix]any) []byte {
	const empty = -1
	nodes := [][2]int{{empty, empty}} // > 0: another node; < empty: data at -(n+2)
	var data bytes.Buffer
	for _, p := range slices.SortedFunc(maps.Keys(networks), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
		address, bits := p.Addr().As16(), p.Bits()
		if p.Addr().Is4() { // below ::/96
			address, bits = [16]byte{}, bits+96
			v4 := p.Addr().As4()
			copy(address[12:], v4[:])
		}
		at := 0
		for i := range bits {
			side := address[i/8] >> (7 - i%8) & 1
			if i == bits-1 {
				nodes[at][side] = -(data.Len() + 2)
				break
			}
			if nodes[at][side] == empty {
				nodes = append(nodes, [2]int{empty, empty})
				nodes[at][side] = len(nodes) - 1
			}
			at = nodes[at][side]
		}
		encode(&data, networks[p])
	}
	var out bytes.Buffer
	for _, n := range nodes {
		for _, record := range n {
			value := len(nodes)
			switch {
			case record > 0:
				value = record
			case record < empty:
				value = len(nodes) + 16 + -(record + 2)
			}
			var b [4]byte
			binary.BigEndian.PutUint32(b[:], uint32(value))
			out.Write(b[1:]) // records of 24 bits
		}
	}
	out.Write(make([]byte, 16))
	out.Write(data.Bytes())
	out.WriteString("\xab\xcd\xefMaxMind.com")
	encode(&out, map[string]any{
		"binary_format_major_version": uint16(2), "binary_format_minor_version": uint16(0), "build_epoch": uint64(1_700_000_000),
		"database_type": "Test-Country", "description": map[string]any{"en": "a test"}, "ip_version": uint16(6),
		"languages": []any{"en"}, "node_count": uint32(len(nodes)), "record_size": uint16(24),
	})
	return out.Bytes()
}

func encode(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case string:
		control(out, typeString, len(v))
		out.WriteString(v)
	case uint16:
		control(out, typeUint16, 2)
		_ = binary.Write(out, binary.BigEndian, v)
	case uint32:
		control(out, typeUint32, 4)
		_ = binary.Write(out, binary.BigEndian, v)
	case uint64:
		control(out, typeUint64, 8)
		_ = binary.Write(out, binary.BigEndian, v)
	case []any:
		control(out, typeArray, len(v))
		for _, e := range v {
			encode(out, e)
		}
	case map[string]any:
		control(out, typeMap, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			encode(out, name)
			encode(out, v[name])
		}
	default:
		panic("mmdbtest: a value of another type")
	}
}

// control writes a type and a size of up to 28.
func control(out *bytes.Buffer, kind, size int) {
	if kind <= 7 {
		out.WriteByte(byte(kind<<5 | size))
		return
	}
	out.WriteByte(byte(size))
	out.WriteByte(byte(kind - 7))
}
