package auditproof

import "crypto/sha256"

// tree is a Merkle tree (RFC 6962, section 2.1) that grows by leaves. full[i] is the
// root of a complete subtree of 2^i leaves, or nil: the binary digits of the number
// of leaves.
type tree struct{ full [][]byte }

func (t *tree) add(node []byte) {
	for i := range t.full {
		if t.full[i] == nil {
			t.full[i] = node
			return
		}
		node, t.full[i] = parent(t.full[i], node), nil
	}
	t.full = append(t.full, node)
}

// root is the hash of no bytes for a tree without leaves.
func (t *tree) root() []byte {
	var node []byte
	for _, left := range t.full {
		switch {
		case left == nil:
		case node == nil:
			node = left
		default:
			node = parent(left, node)
		}
	}
	if node == nil {
		empty := sha256.Sum256(nil)
		return empty[:]
	}
	return node
}

// Root is the root over leaves, which are hashes of entries.
func Root(leaves [][]byte) []byte {
	var t tree
	for _, l := range leaves {
		t.add(l)
	}
	return t.root()
}

func parent(left, right []byte) []byte {
	h := sha256.New()
	h.Write([]byte{1})
	h.Write(left)
	h.Write(right)
	return h.Sum(nil)
}
