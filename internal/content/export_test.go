package content

// SetSampleRows lets a few rows be many, so that every way to search is taken.
func (s *Service) SetSampleRows(n int) { s.sampleRows = n }
