package client

import "sync"

// cache remembers the results of the user agents seen lately. It keeps two
// generations of at most size entries: when the young one is full it becomes the
// old one, and what nobody asked for since goes with the generation before. That
// bounds memory like an LRU without a list to reorder on every hit.
type cache struct {
	size int

	mu         sync.Mutex
	young, old map[string]Client
}

func newCache(size int) *cache {
	return &cache{size: size, young: make(map[string]Client)}
}

func (c *cache) get(userAgent string) (Client, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.young[userAgent]; ok {
		return found, true
	}
	found, ok := c.old[userAgent]
	if ok {
		c.putLocked(userAgent, found)
	}
	return found, ok
}

func (c *cache) put(userAgent string, found Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(userAgent, found)
}

func (c *cache) putLocked(userAgent string, found Client) {
	if len(c.young) >= c.size {
		c.old, c.young = c.young, make(map[string]Client, c.size)
	}
	c.young[userAgent] = found
}
