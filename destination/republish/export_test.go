package republish

import "context"

// Step hands over one batch, or a part of it.
func (p *Publisher) Step(ctx context.Context) (more bool, err error) { return p.step(ctx) }
