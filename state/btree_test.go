package state

import "encoding/binary"

// kept is one value of a row, where the table itself keeps it: a row's copy in an index
// is another. The lowest bit of the byte makes another value of it, of the same length.
type kept struct {
	column string
	at     int // of the byte in the file
}

// leaves reads the b-tree of a table from the file of a ledger, as
// https://www.sqlite.org/fileformat2.html#b_tree_pages describes it.
type leaves struct {
	file    []byte
	columns []string // as they are stored
	rowID   string   // the column that is the row's number; "" for none
}

// each passes parts of each row's values to do: of a text or a box a byte at its beginning, one in the middle
// and one at its end, of 0 and 1 the byte that differs, and nothing of NULL and an empty text. It omits rows
// on inner pages, where tables without numbers have a few.
func (l leaves) each(page int, do func(row []kept)) {
	start := (page - 1) * l.pageSize()
	head := start
	if page == 1 {
		head += 100
	}
	const innerIndex, innerTable, leafTable = 2, 5, 13
	kind := l.file[head]
	cells := head + 8
	if kind == innerIndex || kind == innerTable {
		cells += 4
		defer func() { l.each(int(binary.BigEndian.Uint32(l.file[head+8:])), do) }()
	}
	for i := range int(binary.BigEndian.Uint16(l.file[head+3:])) {
		cell := start + int(binary.BigEndian.Uint16(l.file[cells+2*i:]))
		if kind == innerIndex || kind == innerTable {
			l.each(int(binary.BigEndian.Uint32(l.file[cell:])), do)
			continue
		}
		do(l.row(cell, kind == leafTable))
	}
}

func (l leaves) pageSize() int {
	if size := int(binary.BigEndian.Uint16(l.file[16:])); size > 1 {
		return size
	}
	return 1 << 16
}

// row reads the cell of a row, whose number comes before its values if it has one.
func (l leaves) row(cell int, numbered bool) (row []kept) {
	size, cell := varint(l.file, cell)
	if numbered {
		_, end := varint(l.file, cell)
		if l.rowID != "" {
			row = append(row, kept{l.rowID, end - 1})
		}
		cell = end
	}
	where := l.payload(cell, size, numbered)
	record := make([]byte, len(where))
	for i, at := range where {
		record[i] = l.file[at]
	}
	value, head := varint(record, 0)
	for end, i := value, 0; head < end; i++ {
		kind, next := varint(record, head)
		switch {
		case kind == 8 || kind == 9: // 0 and 1 are a type each, and nothing more
			row = append(row, kept{l.columns[i], where[head]})
		case length(kind) > 0 && kind > 9: // the first letter: of a time it makes another time
			row = append(row, kept{l.columns[i], where[value]}, kept{l.columns[i], where[value+length(kind)/2]})
			fallthrough
		case length(kind) > 0:
			row = append(row, kept{l.columns[i], where[value+length(kind)-1]})
		}
		value += length(kind)
		head = next
	}
	return row
}

// payload returns where each byte of a row is, in the cell and on the pages it overflows to.
func (l leaves) payload(cell, size int, numbered bool) (where []int) {
	usable := l.pageSize() - int(l.file[20])
	most := usable - 35
	if !numbered {
		most = (usable-12)*64/255 - 23
	}
	local := size
	if size > most {
		least := (usable-12)*32/255 - 23
		if local = least + (size-least)%(usable-4); local > most {
			local = least
		}
	}
	add := func(from, n int) {
		for i := range n {
			where = append(where, from+i)
		}
	}
	add(cell, local)
	for next := cell + local; len(where) < size; {
		next = (int(binary.BigEndian.Uint32(l.file[next:])) - 1) * l.pageSize()
		add(next+4, min(size-len(where), usable-4))
	}
	return where
}

// length is how many bytes a value of this type has.
func length(kind int) int {
	if kind >= 12 {
		return (kind - 12) / 2
	}
	return []int{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}[kind]
}

// varint reads a number of at most nine bytes, and returns where the next thing begins.
func varint(b []byte, at int) (n, next int) {
	for i := range 8 {
		n = n<<7 | int(b[at+i]&0x7f)
		if b[at+i] < 0x80 {
			return n, at + i + 1
		}
	}
	return n<<8 | int(b[at+8]), at + 9
}
