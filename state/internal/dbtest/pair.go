package dbtest

import "fmt"

// StandbyPair is a server and a synchronous standby, like a production database without data loss in a failover.
// Unlike the server of New it belongs to its creator.
type StandbyPair struct {
	primary, standby running
	script           *script
}

// pair sets both up, and then executes commands, one a line, and confirms each.
const pair = `
PATH="$PATH:$4"
cd "$1" || exit 1
up() { pg_ctl -D "$1" -o "-p $2" -w -l "$1.log" start >>log 2>&1 || { cat log "$1.log"; exit 1; }; }
initdb -D primary -A trust -U postgres -E UTF8 --locale=C.UTF-8 --no-sync >log 2>&1 || { cat log; exit 1; }
cat >>primary/postgresql.conf <<-end
	listen_addresses = '127.0.0.1'
	unix_socket_directories = ''
	max_connections = 100
	shared_buffers = 32MB
	wal_retrieve_retry_interval = 100ms
end
up primary "$2"
pg_basebackup -d "host=127.0.0.1 port=$2 user=postgres application_name=standby" -D standby -R -c fast >>log 2>&1 || { cat log; exit 1; }
up standby "$3"
psql -q -h 127.0.0.1 -p "$2" -U postgres -d postgres -c "ALTER SYSTEM SET synchronous_standby_names = 'standby'" -c "SELECT pg_reload_conf()" >>log 2>&1 || { cat log; exit 1; }
echo ready
while read -r word; do
	case $word in
	lose) kill -KILL $(head -n 1 primary/postmaster.pid) ;; # what it left ends by itself
	promote) pg_ctl -D standby -w promote >>log 2>&1 ;;
	away) pg_ctl -D standby -w -m immediate stop >>log 2>&1 ;;
	back) up standby "$3" ;;
	esac
	echo "$word"
done
pg_ctl -D primary -m immediate stop >>log 2>&1
pg_ctl -D standby -m immediate stop >>log 2>&1
cd / && rm -rf "$1"
`

// NewPair starts a server and its standby, until Close. It fails with ErrMissing where PostgreSQL is not installed.
func NewPair() (*StandbyPair, error) {
	p := &StandbyPair{}
	for _, s := range []*running{&p.primary, &p.standby} {
		var err error
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	var err error
	if p.script, err = begin(pair, p.primary.port, p.standby.port); err != nil {
		return nil, err
	}
	return p, p.primary.manage("CREATE ROLE ledger LOGIN")
}

// New returns the address of a new database without tables. The address names both servers and
// means the one that accepts writes.
func (p *StandbyPair) New() (dsn string, err error) {
	return fmt.Sprintf("host=127.0.0.1,127.0.0.1 port=%d,%d user=ledger dbname=ledger sslmode=disable", p.primary.port,
			p.standby.port),
		p.primary.manage("CREATE DATABASE ledger OWNER ledger")
}

// Manage runs a statement as the role of the server that was the first.
func (p *StandbyPair) Manage(statement string) error { return p.primary.manage(statement) }

// Standby returns the address of that database on the standby alone.
func (p *StandbyPair) Standby() (dsn string) { return p.standby.dsn("ledger") }

// ManageStandby runs a statement as the role of the server that was the standby.
func (p *StandbyPair) ManageStandby(statement string) error { return p.standby.manage(statement) }

// Lose kills the first server with all that it was at.
func (p *StandbyPair) Lose() error { return p.do("lose") }

// Promote puts the standby in its place.
func (p *StandbyPair) Promote() error { return p.do("promote") }

// Away stops the standby.
func (p *StandbyPair) Away() error { return p.do("away") }

// Back starts it again.
func (p *StandbyPair) Back() error { return p.do("back") }

// Close ends both and removes what they left.
func (p *StandbyPair) Close() error { return p.script.tell.Close() }

func (p *StandbyPair) do(word string) error {
	if _, err := fmt.Fprintln(p.script.tell, word); err != nil {
		return err
	}
	return p.script.await(word)
}
