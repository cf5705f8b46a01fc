package telemetry

import (
	"fmt"
	"syscall"
)

// Disk is how full the file system of a directory is, in bytes.
type Disk struct {
	Dir         string
	Free, Total int64 // Free is what this process may still write
}

// Share is the free part of it, 0 to 1.
func (d Disk) Share() float64 {
	if d.Total <= 0 {
		return 1
	}
	return float64(d.Free) / float64(d.Total)
}

// Disks looks at the file systems of some directories, in their order, each file system
// once. It waits for as long as the system does, which for a network's can be long.
func Disks(dirs []string) ([]Disk, error) {
	var list []Disk
	seen := map[uint64]bool{}
	for _, dir := range dirs {
		var at syscall.Stat_t
		var fs syscall.Statfs_t
		if err := syscall.Stat(dir, &at); err != nil {
			return nil, fmt.Errorf("telemetry: disk of %s: %w", dir, err)
		}
		if seen[uint64(at.Dev)] {
			continue
		}
		seen[uint64(at.Dev)] = true
		if err := syscall.Statfs(dir, &fs); err != nil {
			return nil, fmt.Errorf("telemetry: disk of %s: %w", dir, err)
		}
		size := int64(fs.Bsize)
		list = append(list, Disk{dir, int64(fs.Bavail) * size, int64(fs.Blocks) * size})
	}
	return list, nil
}
