package systemd

import (
	"context"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/util"
)

// Units is a connection to systemd that is made when it is first needed. It is safe for concurrent use.
type Units struct {
	once sync.Once
	conn *Conn
	err  error
	ctx  context.Context // values only: the connection outlives what cancels a run
}

// NewUnits returns Units that are not connected yet.
func NewUnits(ctx context.Context) *Units { return &Units{ctx: context.WithoutCancel(ctx)} }

// connect connects once, and returns the same connection or error each time.
func (u *Units) connect() (*Conn, error) {
	u.once.Do(func() { u.conn, u.err = Connect(u.ctx) })
	return u.conn, u.err
}

// Close ends the connection, if there is one. Each later call of another method returns ErrGone.
func (u *Units) Close() {
	u.once.Do(func() { u.err = ErrGone })
	if u.conn != nil {
		u.conn.Close()
	}
}

// Look is Conn.Look.
func (u *Units) Look(ctx context.Context, name string) (Unit, error) {
	c, err := u.connect()
	if err != nil {
		return Unit{}, err
	}
	return c.Look(ctx, name)
}

// MayWait is Conn.MayWait.
func (u *Units) MayWait(ctx context.Context, name string) (bool, error) {
	c, err := u.connect()
	if err != nil {
		return false, err
	}
	return c.MayWait(ctx, name)
}

// Mounts is Conn.Mounts.
func (u *Units) Mounts(ctx context.Context, paths []string) ([]Mount, error) {
	c, err := u.connect()
	if err != nil {
		return nil, err
	}
	return c.Mounts(ctx, paths)
}

// Reload is Conn.Reload.
func (u *Units) Reload(ctx context.Context) error {
	c, err := u.connect()
	if err != nil {
		return err
	}
	return c.Reload(ctx)
}

// Start is Conn.Start.
func (u *Units) Start(ctx context.Context, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return Unanswered, err
	}
	return c.Start(ctx, name, wait)
}

// Stop is Conn.Stop.
func (u *Units) Stop(ctx context.Context, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return Unanswered, err
	}
	return c.Stop(ctx, name, wait)
}

// Act is Conn.Act.
func (u *Units) Act(ctx context.Context, verb, name string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return Unanswered, err
	}
	return c.Act(ctx, verb, name, wait)
}

// CreateTmpfiles is Conn.CreateTmpfiles.
func (u *Units) CreateTmpfiles(ctx context.Context, files []string, wait time.Duration) (string, error) {
	c, err := u.connect()
	if err != nil {
		return Unanswered, err
	}
	return c.CreateTmpfiles(ctx, files, wait)
}

// IsRunning reports whether systemd is the init of this machine, as sd_booted(3) does.
func IsRunning() bool { return util.IsRunningSystemd() }
