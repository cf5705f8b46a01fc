package webhook

// Start begins to make attempts at the targets of this instance, at once and whenever some
// are due. The receiver's Close ends that.
func (w *Worker) Start() { w.sending.start() }
