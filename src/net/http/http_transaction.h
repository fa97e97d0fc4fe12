/* One request of a connection, of whatever version of HTTP, from its receipt to the end of its
 * answer: its exchange, its counts, its entry in the journal, and how its answer is composed. What
 * all connections of a loop share for that is in struct tt_http_transactions.
 *
 * Life: begin, when the request is complete or refused; `_start` or `_refuse`; when the exchange is
 * done, `_compose` and the transport sends the answer (of a stream: `_compose_events`, and then
 * what tt_exchange_read() appends); end. It stays until then even if its client goes.
 *
 * It never reads or writes a socket, and knows no connection. Everything happens on the loop's
 * thread. Implemented in http_transaction.c. */
#ifndef TT_NET_HTTP_HTTP_TRANSACTION_H
#define TT_NET_HTTP_HTTP_TRANSACTION_H

#include "net/access/answer_budget.h"
#include "net/http/http_answer.h"
#include "net/http/http_journal.h"
#include "net/http/http_message.h"
#include "net/http/model_pages.h"
#include "serve/limits.h"

#include <uv.h>

struct tt_http_transactions {
    uv_loop_t *loop;                /* borrowed */
    const struct tt_limits *limits; /* borrowed */
    struct tt_http_context context; /* for all exchanges */
    struct tt_model_pages pages;
    struct tt_http_message_limits message_limits;
    struct tt_body_budget body_budget;
    struct tt_text spare_body;
    struct tt_http_counters counts; /* other threads may read */
    struct tt_journal journal;
    int32_t count;               /* that have not ended yet, abandoned ones too */
    bool stopping;               /* no connection is to be kept */
    void (*on_end)(void *owner); /* called when one has ended */
    void *owner;
};

struct tt_http_transaction {
    struct tt_exchange exchange;
    struct tt_http_transactions *all;
    bool is_head;
    int64_t body_bytes; /* sent, or to be sent */
    struct tt_answer_share share;
    struct tt_byte_holder *address; /* a reference; NULL: its bytes have no limit */
    struct tt_http_entry entry;     /* set if there is a journal */
};

/* `quotas`: of all connections of the server, on this and on other loops. Everything borrowed must
 * outlive the transactions. */
void tt_http_transactions_init(struct tt_http_transactions *self, uv_loop_t *loop,
                               const struct tt_limits *limits, struct tt_network_quotas *quotas,
                               const struct tt_http_context *context, void (*on_end)(void *owner),
                               void *owner);
/* All have ended. */
void tt_http_transactions_fini(struct tt_http_transactions *self);

/* A body that is large or packed counts against the limit of its identity or of the address, whose
 * holder may be NULL, from _begin_body on. */
void tt_http_transactions_identify(const struct tt_http_transactions *self,
                                   struct tt_http_message *message, struct tt_byte_holder *address);
/* `message` NULL: none was understood. `received_at`: its first byte, if there is a journal.
 * `address`: the holder of the client's address; NULL: none. */
void tt_http_transaction_begin(struct tt_http_transaction *self, struct tt_http_transactions *all,
                               struct tt_http_message *message, int64_t received_at,
                               const struct tt_peer_address *client, struct tt_byte_holder *address,
                               tt_exchange_done_fn *done, tt_exchange_done_fn *part);
/* Starts the exchange with the message, which is complete. True: the reply is ready; false: `done`
 * comes later. `*io_message` is NULL afterwards if it is kept for longer. */
bool tt_http_transaction_start(struct tt_http_transaction *self,
                               struct tt_http_message **io_message, bool only_metrics);
/* The reply of a request that is not started. */
void tt_http_transaction_refuse(struct tt_http_transaction *self, int status, const char *sentence);
/* The head of the answer, except for what belongs to the connection, and its body as pieces, of
 * which there are at most TT_HTTP_ANSWER_PIECES. Returns how many, borrowed until the end. */
int tt_http_transaction_compose(struct tt_http_transaction *self, struct tt_http_head *out_head,
                                struct tt_coding_piece *out_pieces);
/* The head of a stream of events. */
void tt_http_transaction_compose_events(const struct tt_http_transaction *self,
                                        struct tt_http_head *out_head);
/* The answer was written, or the client has gone. The exchange is not running. */
void tt_http_transaction_end(struct tt_http_transaction *self, bool is_answered);

/* Whether the request is one of those that the last places of connections are kept for. */
bool tt_http_is_probe(const char *target);

#endif
