package main

import (
	"bufio"
	"bytes"
	"strconv"
)

// head is what the load generators need of an answer: reading more would take the
// processors from the service.
type head struct {
	status int
	length int // of the body in bytes; -1 where the answer doesn't say
}

// readHead reads an answer's status line and header, up to its body.
func readHead(r *bufio.Reader) (head, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return head{}, err
	}
	h := head{length: -1}
	if fields := bytes.Fields(line); len(fields) > 1 {
		if h.status, err = strconv.Atoi(string(fields[1])); err != nil {
			return head{}, err
		}
	}
	for {
		if line, err = r.ReadSlice('\n'); err != nil {
			return head{}, err
		}
		if len(line) == 2 {
			return h, nil
		}
		if value, found := bytes.CutPrefix(line, []byte("Content-Length: ")); found {
			if h.length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return head{}, err
			}
		}
	}
}
