package operator

import "context"

// AnswerTo answers a question of another process, as Run has Peers do.
func (d *Desk) AnswerTo(ctx context.Context, question []byte) []byte {
	return d.answerTo(ctx, question)
}
