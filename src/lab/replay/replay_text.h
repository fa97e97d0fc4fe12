/* A recorded decision and a replayed one as text, for the message that reports a difference. */
#ifndef TT_LAB_REPLAY_REPLAY_TEXT_H
#define TT_LAB_REPLAY_REPLAY_TEXT_H

#include "base/text.h"
#include "record/recording_reader.h"

void tt_replay_text_event(struct tt_text *out, const struct tt_recorded_event *event);
void tt_replay_text_run(struct tt_text *out, const struct tt_task *task);
void tt_replay_text_drop(struct tt_text *out, int64_t number, enum tt_drop_reason reason);

#endif
