package blob

import (
	"net"
	"time"
)

// Impatient is a connection that fails after that much silence.
func Impatient(c net.Conn, silence time.Duration) net.Conn { return &impatient{c, silence} }
