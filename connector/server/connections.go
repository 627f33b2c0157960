package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
)

const defaultConnections = 2048

// Connections limits the open connections of a listener.
//
// A client may use all connections that nobody else needs. When all are taken, the client with the most loses
// the one that has waited longest. So idle connections never keep a new client out. A connection is safe
// while a verified delivery on it is being stored.
type Connections struct {
	Most    int            // open at a time; default 2,048
	Proxies []netip.Prefix // with connections of many clients: they are closed last
}

// sharedListener is a listener with Connections.
type sharedListener struct {
	net.Listener
	Connections
	freed  chan struct{} // a connection was closed since somebody waited for it
	closed chan struct{}
	close  func()

	mu      sync.Mutex
	open    int
	holders map[holder]*clientConnections
}

// holder is a client by its block; a proxy is none of the clients beside it.
type holder struct {
	block netip.Prefix
	proxy bool
}

// clientConnections are the connections of one client.
type clientConnections struct {
	open    int
	waiting list.List // of *sharedConn: closable ones, the longest wait first
}

// share makes ln the listener of srv, and follows the state of its connections.
func (c Connections) share(ln net.Listener, srv *http.Server) *sharedListener {
	setDefault(&c.Most, defaultConnections)
	closed := make(chan struct{})
	l := &sharedListener{
		Listener: ln, Connections: c, freed: make(chan struct{}, 1), closed: closed,
		close: sync.OnceFunc(func() { close(closed) }), holders: make(map[holder]*clientConnections),
	}
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateActive || state == http.StateIdle {
			ownConn(conn).wait()
		}
	}
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connectionKey{}, ownConn(conn))
	}
	return l
}

// connectionKey is the context key of a request's connection: a handler has no other access to it.
type connectionKey struct{}

// keepConnection keeps the connection of a request from giving way until the
// request is answered.
func keepConnection(ctx context.Context) {
	if c, ok := ctx.Value(connectionKey{}).(*sharedConn); ok {
		c.protect()
	}
}

// ownConn returns the accepted connection, without TLS around it.
func ownConn(conn net.Conn) *sharedConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	return conn.(*sharedConn)
}

// Accept returns the next connection, and may close another to make room. If it cannot close any, it waits
// until one closes.
func (l *sharedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for !l.makeRoom() {
		select {
		case <-l.freed:
		case <-l.closed:
			_ = conn.Close() // nothing was said on it
			return nil, net.ErrClosed
		}
	}
	return l.admit(conn), nil
}

// Close ends Accept, also while it waits.
func (l *sharedListener) Close() error {
	l.close()
	return l.Listener.Close()
}

// makeRoom reports whether there is room for one more connection. It closes one if necessary.
func (l *sharedListener) makeRoom() bool {
	l.mu.Lock()
	full, first := l.open >= l.Most, l.firstToGo()
	l.mu.Unlock()
	if full && first != nil {
		_ = first.Close() // its data is lost on purpose
	}
	return !full || first != nil
}

// firstToGo returns the next connection to close for a new one; nil when all must stay.
func (l *sharedListener) firstToGo() *sharedConn {
	if l.open < l.Most {
		return nil
	}
	var of *clientConnections
	var ofProxy bool
	for who, h := range l.holders {
		if h.waiting.Len() > 0 && (of == nil || ofProxy && !who.proxy || ofProxy == who.proxy && h.open > of.open) {
			of, ofProxy = h, who.proxy
		}
	}
	if of == nil {
		return nil
	}
	return of.waiting.Front().Value.(*sharedConn)
}

func (l *sharedListener) admit(conn net.Conn) *sharedConn {
	addr := peer(conn.RemoteAddr().String())
	c := &sharedConn{Conn: conn, listener: l, of: holder{block(addr), trusted(l.Proxies, addr)}}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := l.holders[c.of]
	if h == nil {
		h = new(clientConnections)
		l.holders[c.of] = h
	}
	l.open++
	h.open++
	c.place = h.waiting.PushBack(c)
	return c
}

// sharedConn is one connection of a sharedListener.
type sharedConn struct {
	net.Conn
	listener *sharedListener
	of       holder

	// These are the listener's to lock.
	place  *list.Element // among the closable ones; nil while it is kept
	closed bool
}

// wait marks the connection as idle after progress: it may now be closed, after those idle for longer.
func (c *sharedConn) wait() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	if !c.closed {
		c.unprotect()
		c.place = c.listener.holders[c.of].waiting.PushBack(c)
	}
}

// protect protects the connection until it waits again.
func (c *sharedConn) protect() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.unprotect()
}

func (c *sharedConn) unprotect() {
	if c.place != nil {
		c.listener.holders[c.of].waiting.Remove(c.place)
		c.place = nil
	}
}

// Close closes the connection and gives its place back, once.
func (c *sharedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

func (c *sharedConn) release() {
	l := c.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.closed {
		return
	}
	c.unprotect()
	c.closed = true
	l.open--
	if h := l.holders[c.of]; h.open > 1 {
		h.open--
	} else {
		delete(l.holders, c.of)
	}
	select {
	case l.freed <- struct{}{}:
	default:
	}
}
