#include "lab/replay/replay_text.h"

enum { SHOWN_REQUESTS = 16 };

static void put_head(struct tt_text *out, int32_t executor, int32_t model, int32_t first_step,
                     int32_t last_step, int32_t repeat, int32_t length) {
    tt_text_printf(out, "RUN on executor %d, model %d, steps %d to %d", executor, model, first_step,
                   last_step);
    if (repeat != 1)
        tt_text_printf(out, ", %d times", repeat);
    if (length != 0)
        tt_text_printf(out, ", length %d", length);
}

static void put_number(struct tt_text *out, int32_t index, int32_t count, int64_t number) {
    if (index == 0)
        tt_text_printf(out, ", %d request%s", count, count == 1 ? "" : "s");
    if (index < SHOWN_REQUESTS)
        tt_text_printf(out, " %lld", (long long)number);
    else if (index == SHOWN_REQUESTS)
        tt_text_puts(out, " ...");
}

static void put_cell(struct tt_text *out, int32_t index, int32_t count, int64_t number,
                     int32_t subgraph) {
    if (index == 0)
        tt_text_printf(out, ", %d cell%s of (request/subgraph)", count, count == 1 ? "" : "s");
    if (index < SHOWN_REQUESTS)
        tt_text_printf(out, " %lld/%d", (long long)number, subgraph);
    else if (index == SHOWN_REQUESTS)
        tt_text_puts(out, " ...");
}

void tt_replay_text_run(struct tt_text *out, const struct tt_task *task) {
    put_head(out, task->executor, task->model, task->first_step, task->last_step, task->repeat,
             task->length);
    if (task->start_at > task->dispatched_at)
        tt_text_printf(out, ", not before %+lld ns",
                       (long long)(task->start_at - task->dispatched_at));
    for (int32_t i = 0; i < task->count; i++) {
        int64_t number = tt_request_arrival(task->items[i].request);
        if (task->items[i].subgraph)
            put_cell(out, i, task->count, number, tt_record_subgraph(&task->items[i]));
        else
            put_number(out, i, task->count, number);
    }
}

void tt_replay_text_drop(struct tt_text *out, int64_t number, enum tt_drop_reason reason) {
    tt_text_printf(out, "DROP request %lld (%s)", (long long)number, tt_drop_reason_name(reason));
}

void tt_replay_text_event(struct tt_text *out, const struct tt_recorded_event *event) {
    switch (event->kind) {
    case TT_RECORD_RUN:
        put_head(out, event->index, event->model, event->first_step, event->last_step,
                 event->repeat, event->length);
        if (event->start_at > event->now)
            tt_text_printf(out, ", not before %+lld ns", (long long)(event->start_at - event->now));
        for (int32_t i = 0; i < event->count; i++)
            if (event->subgraphs)
                put_cell(out, i, event->count, event->numbers[i], event->subgraphs[i]);
            else
                put_number(out, i, event->count, event->numbers[i]);
        break;
    case TT_RECORD_DROP: tt_replay_text_drop(out, event->number, event->reason); break;
    case TT_RECORD_YIELD: tt_text_printf(out, "YIELD executor %d", event->index); break;
    case TT_RECORD_ABORT: tt_text_printf(out, "ABORT executor %d", event->index); break;
    case TT_RECORD_DOMAIN:
    case TT_RECORD_ARRIVED:
    case TT_RECORD_REFUSED:
    case TT_RECORD_READY:
    case TT_RECORD_CANCELLED:
    case TT_RECORD_RECEIVED:
    case TT_RECORD_FINISHED:
    case TT_RECORD_MODEL:
    case TT_RECORD_EXECUTOR:
    case TT_RECORD_DECIDE:
    case TT_RECORD_GAP:
    case TT_RECORD_THREAD:
    case TT_RECORD_TURN:
    case TT_RECORD_ARRIVED_CELLS:
    case TT_RECORD_REFUSED_CELLS:
    case TT_RECORD_RUN_CELLS:
    default: tt_text_puts(out, "nothing more"); break;
    }
}
