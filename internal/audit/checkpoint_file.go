package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// signatureMark begins the lines of a note that are signatures.
const signatureMark = "— "

// maxNote is more than a note of ours has, in bytes.
const maxNote = 4096

// appendNote appends a note to a file, which it makes where there is none, and waits
// until it is on disk. Of a note that an earlier crash left torn at the end it removes
// the rest first.
func appendNote(name, text string) error {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	end, size, err := endOfNotes(f)
	if err == nil && end < size {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// endOfNotes is where the last complete note of f ends, and the file's size.
func endOfNotes(f *os.File) (int64, int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	from := max(info.Size()-maxNote, 0)
	tail := make([]byte, info.Size()-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	for end := len(tail); end > 0; {
		line := bytes.LastIndexByte(tail[:end-1], '\n') + 1
		if tail[end-1] == '\n' && bytes.HasPrefix(tail[line:end], []byte(signatureMark)) {
			return from + int64(end), info.Size(), nil
		}
		end = line
	}
	if from > 0 {
		return 0, 0, errors.New("it does not end with checkpoints")
	}
	return 0, info.Size(), nil
}

// witness is a checkpoint that was kept outside. size is 0 when it can't be read.
type witness struct {
	statement
	forged bool // not signed by the key
}

// readNotes reads the notes of a file, in the order of their sizes. One that is torn
// at the end is skipped, which warn is told. It takes some 200 bytes of memory for
// each note.
func readNotes(r io.Reader, verifier note.Verifier, warn func(string)) ([]witness, error) {
	var list []witness
	var text strings.Builder
	signed := false
	finish := func() {
		if text.Len() > 0 {
			list = append(list, readNote(text.String(), verifier))
		}
		text.Reset()
		signed = false
	}
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("audit: read checkpoints: %w", err)
		}
		isSignature := strings.HasPrefix(line, signatureMark)
		if signed && !isSignature {
			finish()
		}
		if text.Len()+len(line) > maxNote {
			return nil, errors.New("audit: that is no file of checkpoints")
		}
		if line != "\n" || text.Len() > 0 {
			text.WriteString(line)
		}
		signed = signed || isSignature
		if err == nil {
			continue
		}
		if rest := text.String(); rest != "" && !strings.HasSuffix(rest, "\n") || rest != "" && !signed {
			// Perhaps only its last line break is missing.
			if w := readNote(rest+"\n", verifier); w.forged {
				warn("the last checkpoint of the file is torn and was skipped")
				break
			}
			text.WriteString("\n")
		}
		finish()
		break
	}
	slices.SortStableFunc(list, func(a, b witness) int { return int(min(max(a.size-b.size, -1), 1)) })
	return list, nil
}

func readNote(text string, verifier note.Verifier) witness {
	c, err := openNote(text, verifier)
	if err == nil {
		return witness{statement: c}
	}
	w := witness{forged: true}
	if lines := strings.SplitN(text, "\n", 3); len(lines) == 3 {
		if size, err := strconv.ParseInt(lines[1], 10, 64); err == nil && size > 0 {
			w.size = size
		}
	}
	return w
}
