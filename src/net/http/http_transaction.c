#include "net/http/http_transaction.h"

#include "net/http/body_work.h"

#include <string.h>

static size_t body_limit(void *context, const char *target) {
    const struct tt_http_transactions *self = context;
    return (size_t)tt_route_body_limit(target, self->context.management_bytes,
                                       self->limits->body_bytes);
}

void tt_http_transactions_init(struct tt_http_transactions *self, uv_loop_t *loop,
                               const struct tt_limits *limits, struct tt_network_quotas *quotas,
                               const struct tt_http_context *context, void (*on_end)(void *owner),
                               void *owner) {
    self->loop = loop;
    self->limits = limits;
    self->context = *context;
    self->context.loop = loop;
    self->context.pages = &self->pages;
    self->context.spare_body = &self->spare_body;
    tt_text_init(&self->spare_body);
    tt_model_pages_init(&self->pages, &self->context);
    self->on_end = on_end;
    self->owner = owner;
    self->stopping = false;
    self->count = 0;
    memset(&self->counts, 0, sizeof(self->counts));
    tt_journal_init(&self->journal, &context->journal);
    tt_body_budget_init(&self->body_budget, &quotas->receive_bytes, &quotas->bodies);
    self->message_limits =
        (struct tt_http_message_limits){.head_bytes = (size_t)limits->header_bytes,
                                        .header_count = (int32_t)limits->header_count,
                                        .body_bytes = (size_t)limits->body_bytes,
                                        .small_body_bytes = (size_t)context->management_bytes,
                                        .body_limit = body_limit,
                                        .context = self,
                                        .budget = &self->body_budget,
                                        .keeps_origin = true,
                                        .keeps_trace = tt_journal_is_on(&self->journal)};
}

void tt_http_transactions_fini(struct tt_http_transactions *self) {
    tt_assert(self->count == 0);
    tt_journal_fini(&self->journal);
    tt_body_budget_fini(&self->body_budget);
    tt_text_fini(&self->spare_body);
}

void tt_http_transactions_identify(const struct tt_http_transactions *self,
                                   struct tt_http_message *message,
                                   struct tt_byte_holder *address) {
    struct tt_gate *gate = self->context.gate;
    bool is_small = message->promised_bytes >= 0 && message->promised_bytes <= TT_BODY_SMALL;
    if (is_small && message->coding == TT_CODING_IDENTITY)
        return;
    struct tt_identity *identity = gate ? tt_gate_identity(gate, &message->token) : NULL;
    message->part.holder = tt_byte_holder_ref(tt_identity_holder(identity, address));
    tt_identity_unref(identity);
}

void tt_http_transaction_begin(struct tt_http_transaction *self, struct tt_http_transactions *all,
                               struct tt_http_message *message, int64_t received_at,
                               const struct tt_peer_address *client, struct tt_byte_holder *address,
                               tt_exchange_done_fn *done, tt_exchange_done_fn *part) {
    /* Not cleared as a whole: its arrays are long and mostly unused. */
    self->all = all;
    self->is_head = message && strcmp(message->method, "HEAD") == 0;
    self->body_bytes = 0;
    self->share = (struct tt_answer_share){0};
    self->address = tt_byte_holder_ref(address);
    if (tt_journal_is_on(&all->journal))
        tt_http_journal_begin(&all->journal, message, received_at, client, &self->entry);
    tt_exchange_init(&self->exchange, &all->context, done, part);
    self->exchange.coding = message ? message->accepts : TT_CODING_IDENTITY;
    all->count++;
    tt_counter_add(&all->counts.requests, 1);
}

bool tt_http_transaction_start(struct tt_http_transaction *self,
                               struct tt_http_message **io_message, bool only_metrics) {
    struct tt_http_transactions *all = self->all;
    const struct tt_body_work_context context = {
        .loop = all->loop, .limits = all->limits, .only_metrics = only_metrics};
    return tt_body_work_start(&context, io_message, &self->exchange);
}

void tt_http_transaction_refuse(struct tt_http_transaction *self, int status,
                                const char *sentence) {
    tt_reply_fail(&self->exchange.reply, status, sentence);
    if (status == 503 || status == 429)
        self->exchange.reply.retry_after_s = 1;
}

void tt_http_transaction_end(struct tt_http_transaction *self, bool is_answered) {
    struct tt_http_transactions *all = self->all;
    if (tt_journal_is_on(&all->journal))
        tt_http_journal_end(&all->journal, &self->entry, &self->exchange,
                            is_answered ? self->body_bytes : -1);
    int status = self->exchange.reply.status - TT_HTTP_STATUS_FIRST;
    tt_counter_add(is_answered ? &all->counts.by_status[status] : &all->counts.gone, 1);
    tt_answer_share_give(&self->share);
    tt_byte_holder_unref(self->address);
    tt_exchange_fini(&self->exchange);
    tt_assert(all->count > 0);
    all->count--;
    all->on_end(all->owner);
}

/* --- answers --- */

static const struct tt_trace_context *answer_context(const struct tt_http_transaction *self) {
    return tt_journal_answer_context(&self->all->journal, &self->entry.entry);
}

void tt_http_transaction_compose_events(const struct tt_http_transaction *self,
                                        struct tt_http_head *out_head) {
    const struct tt_reply *reply = &self->exchange.reply;
    *out_head = (struct tt_http_head){.status = reply->status,
                                      .content_type = reply->content_type,
                                      .json_bytes = -1,
                                      .headers = "Cache-Control: no-cache\r\n",
                                      .trace = answer_context(self),
                                      .is_stream = true};
}

/* The answer counts for its holder until it was written. */
static void claim_share(struct tt_http_transaction *self) {
    struct tt_exchange *exchange = &self->exchange;
    struct tt_coding_piece pieces[TT_HTTP_ANSWER_PIECES];
    struct tt_error why;
    int64_t bytes = 0;
    struct tt_byte_holder *holder = tt_identity_holder(exchange->claim.identity, self->address);
    if (!holder)
        return;
    int count = tt_http_answer_pieces(exchange, pieces);
    for (int i = 0; i < count; i++)
        bytes += (int64_t)pieces[i].count;
    if (tt_answer_share_take(&self->share, holder, bytes, &why))
        return;
    tt_http_answer_drop(exchange);
    tt_http_transaction_refuse(self, 429, why.text);
}

int tt_http_transaction_compose(struct tt_http_transaction *self, struct tt_http_head *out_head,
                                struct tt_coding_piece *out_pieces) {
    struct tt_exchange *exchange = &self->exchange;
    struct tt_reply *reply = &exchange->reply;
    tt_assert(!exchange->is_running);
    if (reply->body.failed) {
        tt_text_fini(&reply->body);
        reply->content_type = NULL;
        reply->status = 503;
    }
    claim_share(self);
    bool has_parts = exchange->parts.size_bytes > 0;
    *out_head = (struct tt_http_head){.status = reply->status,
                                      .content_type = reply->content_type,
                                      .json_bytes = has_parts ? (int64_t)reply->body.length : -1,
                                      .allow = reply->allow,
                                      .headers = reply->headers,
                                      .trace = answer_context(self),
                                      .retry_after_s = reply->retry_after_s};
    int count = tt_http_answer_pieces(exchange, out_pieces);
    for (int i = 0; i < count; i++)
        out_head->content_bytes += out_pieces[i].count;
    if (exchange->is_packed)
        out_head->coding = exchange->coding;
    self->body_bytes = self->is_head ? 0 : (int64_t)out_head->content_bytes;
    return self->is_head ? 0 : count;
}

bool tt_http_is_probe(const char *target) {
    static const char health[] = "/v2/health/", metrics[] = "/metrics";
    size_t length = strcspn(target, "?");
    return strncmp(target, health, sizeof(health) - 1) == 0 ||
           (length == sizeof(metrics) - 1 && memcmp(target, metrics, length) == 0);
}
