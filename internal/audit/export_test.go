package audit

// What the properties and fuzz tests reach from inside.
type (
	Frontier = frontier
	Ranges   = ranges
)

// Add adds a leaf.
func (f *Frontier) Add(leaf [32]byte) { f.add(leaf) }

// Root is that of the tree.
func (f *Frontier) Root() [32]byte { return f.root() }

// FrontierAt is the tree of the first n leaves.
var FrontierAt = frontierAt

// Add, Remove, RemoveTo and Runs are those of ranges.
func (r *Ranges) Add(n int64)      { r.add(n) }
func (r *Ranges) Remove(n int64)   { r.remove(n) }
func (r *Ranges) RemoveTo(n int64) { r.removeTo(n) }
func (r *Ranges) Runs() [][2]int64 { return *r }

// ReadNotes returns the sizes of the notes of a file, negative when forged.
var ReadNotes = readNotes

// Size is the note's, and Forged whether the key did not sign it.
func (w witness) Size() int64  { return w.size }
func (w witness) Forged() bool { return w.forged }
