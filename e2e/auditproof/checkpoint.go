package auditproof

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// verifier is a key that signs checkpoints.
type verifier struct {
	name   string
	id     []byte
	public ed25519.PublicKey
}

// parseKey reads <name>+<key id>+<base64 of the algorithm and the public key>.
func parseKey(text string) (*verifier, error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(text), "+")
	id, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || name == "" || len(raw) != 1+ed25519.PublicKeySize || raw[0] != 1 {
		return nil, errors.New("auditproof: this is no verifier key")
	}
	digest := sha256.Sum256(append([]byte(name+"\n"), raw...))
	if hex.EncodeToString(digest[:4]) != id {
		return nil, errors.New("auditproof: the verifier key's id is not that of its key")
	}
	return &verifier{name: name, id: digest[:4], public: raw[1:]}, nil
}

// checkpoint is what a note claims. size is 0 when nobody can read it.
type checkpoint struct {
	size   int64
	root   []byte
	head   string
	signed bool
}

// fault is the reason why a checkpoint of the log's first entries can't be true, or "".
func (c checkpoint) fault(root []byte, head string) string {
	switch {
	case !c.signed:
		return "checkpoint_signature"
	case !bytes.Equal(c.root, root) || c.head != head:
		return "root"
	}
	return ""
}

// checkpoints reads notes that were appended to each other, and says whether the
// last one, which it then leaves out, is torn. One that lacks only its last line
// break isn't.
func (v *verifier) checkpoints(file string) ([]checkpoint, bool) {
	var list []checkpoint
	for rest := file; ; {
		if rest = strings.TrimLeft(rest, "\n"); rest == "" {
			return list, false
		}
		body, after, whole := strings.Cut(rest, "\n\n")
		var signatures []string
		for strings.HasPrefix(after, "— ") {
			var line string
			line, after, whole = strings.Cut(after, "\n")
			signatures = append(signatures, line)
		}
		if last := v.read(body+"\n", signatures); !whole && last.signed {
			return append(list, last), false
		}
		if !whole || len(signatures) == 0 && after == "" || strings.HasPrefix("— ", after) && after != "" {
			return list, true
		}
		list, rest = append(list, v.read(body+"\n", signatures)), after
	}
}

func (v *verifier) read(body string, signatures []string) checkpoint {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	var c checkpoint
	if len(lines) > 1 {
		if n, err := strconv.ParseInt(lines[1], 10, 64); err == nil && n > 0 && strconv.FormatInt(n, 10) == lines[1] {
			c.size = n
		}
	}
	c.signed = v.signed(body, signatures) && c.fill(v.name, lines) == nil
	return c
}

func (v *verifier) signed(body string, signatures []string) bool {
	for _, line := range signatures {
		encoded, ours := strings.CutPrefix(line, "— "+v.name+" ")
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if ours && err == nil && len(raw) == 4+ed25519.SignatureSize && bytes.Equal(raw[:4], v.id) && ed25519.Verify(v.public, []byte(body), raw[4:]) {
			return true
		}
	}
	return false
}

// fill reads what a checkpoint of an origin says; size is already there.
func (c *checkpoint) fill(origin string, lines []string) error {
	if len(lines) != 5 || lines[0] != origin || c.size == 0 {
		return errors.New("auditproof: the note is no checkpoint of this log")
	}
	var err error
	if c.root, err = base64.StdEncoding.DecodeString(lines[2]); err != nil || len(c.root) != sha256.Size {
		return fmt.Errorf("auditproof: the root %q: %w", lines[2], err)
	}
	if _, err := digestOf(lines[3]); err != nil {
		return err
	}
	c.head = lines[3]
	_, err = time.Parse("2006-01-02T15:04:05.000000Z", lines[4])
	return err
}
