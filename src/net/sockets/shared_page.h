/* Pages that take long to write, such as the metrics of many models: a thread of the pool
 * writes them (net/sockets/pool_work.h), one of a kind at a time for each loop. Requests that come
 * meanwhile wait for the next page with their key, and share it. So many clients that ask cost the
 * time and the memory of a few pages, and leave the other threads of the pool alone.
 *
 * Life of a page: the first asker begins it on the loop; it is written in the pool; every asker
 * that waited at its beginning is called on the loop, as many per turn as it has time for
 * (base/loop_turn.h), and may keep a reference. An asker cannot leave before it was called.
 *
 * All functions belong to the loop's thread. Implemented in shared_page.c. */
#ifndef TT_NET_SOCKETS_SHARED_PAGE_H
#define TT_NET_SOCKETS_SHARED_PAGE_H

#include "base/err.h"
#include "base/list.h"
#include "base/loop_turn.h"
#include "base/text.h"
#include "net/sockets/pool_work.h"

#include <uv.h>

enum {
    TT_SHARED_PAGE_MODELS = 8,   /* versions of models, whose statistics take no time */
    TT_SHARED_PAGE_ENTRIES = 128 /* the same of an index */
};

struct tt_shared_page {
    int32_t reference_count;
    struct tt_text text;
};

struct tt_page_asker {
    struct tt_list_node node;
    int64_t key; /* which page of the kind; what it means is the kind's */
    /* `page`: borrowed; not looked at after an error. */
    void (*done)(struct tt_page_asker *asker, struct tt_shared_page *page, enum tt_err err,
                 const struct tt_error *why);
};

struct tt_page_kind {
    /* On the loop: what is short, and what only its thread may read. */
    enum tt_err (*begin)(void *context, int64_t key, struct tt_error *why);
    /* In the pool; after a `begin` without an error. */
    enum tt_err (*write)(void *context, struct tt_text *out, struct tt_error *why);
    /* On the loop; after a `begin` without an error. */
    void (*end)(void *context);
};

struct tt_page_writer {
    const struct tt_page_kind *kind;
    void *context;
    struct tt_loop_turn *turn;    /* borrowed; NULL: all are called at once */
    struct tt_loop_behind behind; /* the calls that are left */
    struct tt_pool_work work;
    struct tt_shared_page *page; /* being written; NULL: none */
    bool is_writing, has_begun;
    enum tt_err err;
    struct tt_error why;
    struct tt_list waiting, served; /* for the next page; for this one */
};

void tt_page_writer_init(struct tt_page_writer *self, const struct tt_page_kind *kind,
                         void *context, struct tt_loop_turn *turn);
/* `asker->done` comes later. */
void tt_page_writer_ask(struct tt_page_writer *self, uv_loop_t *loop, struct tt_page_asker *asker);

struct tt_shared_page *tt_shared_page_ref(struct tt_shared_page *self);
void tt_shared_page_unref(struct tt_shared_page *take_self); /* NULL-safe */

#endif
