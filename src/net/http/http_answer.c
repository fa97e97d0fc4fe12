#include "net/http/http_answer.h"

#include "net/kserve/kserve_generate.h"
#include "net/kserve/kserve_share.h"
#include "net/sockets/pool_work.h"

#include <stdlib.h>
#include <uv.h>

struct answer_work {
    struct tt_pool_work work;
    struct tt_exchange *exchange;
    void (*done)(struct tt_exchange *exchange, enum tt_err err, const struct tt_error *why);
    enum tt_err err;
    struct tt_error why;
};

enum tt_err tt_http_answer_event(const struct tt_kserve_answer *answer, struct tt_text *out_text,
                                 struct tt_error *why) {
    size_t before = out_text->length;
    tt_text_puts(out_text, "data: ");
    enum tt_err err = tt_kserve_generate_write(answer, out_text, why);
    if (err)
        out_text->length = before;
    else
        tt_text_puts(out_text, "\n\n");
    return err;
}

int tt_http_answer_pieces(const struct tt_exchange *exchange, struct tt_coding_piece *out_pieces) {
    const struct tt_kserve_parts *parts = &exchange->parts;
    if (exchange->is_packed) {
        out_pieces[0] = (struct tt_coding_piece){exchange->packed.bytes, exchange->packed.length};
        return 1;
    }
    if (exchange->page) {
        const struct tt_text *text = &exchange->page->text;
        out_pieces[0] = (struct tt_coding_piece){text->bytes, text->length};
        return 1;
    }
    out_pieces[0] =
        (struct tt_coding_piece){exchange->reply.body.bytes, exchange->reply.body.length};
    for (int32_t i = 0; i < parts->count; i++)
        out_pieces[i + 1] =
            (struct tt_coding_piece){parts->parts[i].bytes, parts->parts[i].size_bytes};
    return parts->count + 1;
}

void tt_http_answer_drop(struct tt_exchange *exchange) {
    tt_assert(!exchange->is_running);
    exchange->parts.count = 0;
    exchange->parts.size_bytes = 0;
    exchange->is_packed = exchange->is_inference_answer = false;
    tt_text_fini(&exchange->packed);
    tt_shared_page_unref(exchange->page);
    exchange->page = NULL;
    tt_text_fini(&exchange->reply.body);
}

/* Only inference answers are compressed, as Triton does: its clients expect plain metadata. Without
 * memory the answer goes as it is. */
static void pack(struct tt_exchange *exchange) {
    size_t bytes = exchange->reply.body.length + exchange->parts.size_bytes;
    if (exchange->coding == TT_CODING_IDENTITY || bytes < TT_HTTP_ANSWER_PACK_BYTES)
        return;
    struct tt_coding_piece pieces[TT_HTTP_ANSWER_PIECES];
    int count = tt_http_answer_pieces(exchange, pieces);
    tt_coding_pack(exchange->coding, pieces, count, &exchange->packed);
    exchange->is_packed = !exchange->packed.failed;
    if (exchange->is_packed && exchange->parts.size_bytes == 0)
        tt_text_fini(&exchange->reply.body); /* here: in the pool, if it is long */
}

static enum tt_err write_answer(struct tt_exchange *exchange, const struct tt_kserve_answer *answer,
                                struct tt_error *why) {
    struct tt_text *body = &exchange->reply.body;
    bool is_event = exchange->form == TT_EXCHANGE_EVENTS;
    enum tt_err err = exchange->request.shares ? tt_kserve_share_write(answer, why) : TT_OK;
    if (err)
        return err;
    err = exchange->form == TT_EXCHANGE_INFER
              ? tt_kserve_json_write(answer, body, &exchange->parts, why)
          : is_event ? tt_http_answer_event(answer, body, why)
                     : tt_kserve_generate_write(answer, body, why);
    if (err)
        return err;
    exchange->is_inference_answer = true;
    exchange->reply.status = 200;
    exchange->reply.content_type = exchange->parts.size_bytes ? "application/octet-stream"
                                   : is_event                 ? "text/event-stream"
                                                              : "application/json";
    if (!body->failed)
        pack(exchange);
    return TT_OK;
}

/* The work in bytes that become text or are compressed; memory is copied eight times as fast. */
static size_t weight_of(const struct tt_exchange *exchange, const struct tt_kserve_answer *answer) {
    size_t weight = 0;
    for (int32_t i = 0; i < answer->output_count; i++) {
        size_t bytes = answer->outputs[i].view.size_bytes;
        if (answer->outputs[i].share)
            weight += bytes / 8;
        else if (!answer->outputs[i].is_binary || exchange->form != TT_EXCHANGE_INFER ||
                 exchange->coding != TT_CODING_IDENTITY)
            weight += bytes;
    }
    return weight;
}

static void fill(const struct tt_exchange *exchange, struct tt_kserve_answer *out_answer) {
    tt_kserve_answer_fill(out_answer, &exchange->request, exchange->model, exchange->inference);
}

static void run(struct tt_pool_work *work) {
    struct answer_work *self = work->data;
    struct tt_kserve_answer answer;
    fill(self->exchange, &answer);
    self->err = write_answer(self->exchange, &answer, &self->why);
}

static void on_run(struct tt_pool_work *work) {
    struct answer_work *self = work->data;
    self->exchange->is_answering = false;
    self->done(self->exchange, self->err, &self->why);
    free(self);
}

bool tt_http_answer_start(struct tt_exchange *exchange,
                          void (*done)(struct tt_exchange *exchange, enum tt_err err,
                                       const struct tt_error *why),
                          enum tt_err *out_err, struct tt_error *why) {
    struct tt_kserve_answer answer;
    struct answer_work *self = NULL;
    fill(exchange, &answer);
    if (exchange->context->loop && weight_of(exchange, &answer) > TT_HTTP_ANSWER_BYTES)
        self = malloc(sizeof(*self)); /* without memory it is written here */
    if (!self) {
        *out_err = write_answer(exchange, &answer, why);
        return true;
    }
    self->exchange = exchange;
    self->done = done;
    self->work.data = self;
    exchange->is_answering = true;
    tt_pool_work_queue(exchange->context->loop, &self->work, run, on_run);
    return false;
}
