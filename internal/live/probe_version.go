package live

// Joined says whether this machine belongs to the cluster already, and why (not).
func (l *Live) Joined() (bool, string) {
	k := l.node()
	return k.Joined, k.JoinedWhy
}
