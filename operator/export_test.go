package operator

import "context"

// AnswerTo answers a question of another process, as Run has Peers do.
func (d *Service) AnswerTo(ctx context.Context, question []byte) []byte {
	return d.replyTo(ctx, question)
}
