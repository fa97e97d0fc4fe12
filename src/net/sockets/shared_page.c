#include "net/sockets/shared_page.h"

#include <stdlib.h>

struct tt_shared_page *tt_shared_page_ref(struct tt_shared_page *self) {
    self->reference_count++;
    return self;
}

void tt_shared_page_unref(struct tt_shared_page *take_self) {
    if (!take_self || --take_self->reference_count > 0)
        return;
    tt_text_fini(&take_self->text);
    free(take_self);
}

static void call_askers(struct tt_loop_behind *behind);

void tt_page_writer_init(struct tt_page_writer *self, const struct tt_page_kind *kind,
                         void *context, struct tt_loop_turn *turn) {
    *self = (struct tt_page_writer){.kind = kind, .context = context, .turn = turn};
    self->behind.go_on = call_askers;
    self->work.data = self;
    tt_list_init(&self->waiting);
    tt_list_init(&self->served);
}

static void run(struct tt_pool_work *work) {
    struct tt_page_writer *self = work->data;
    if (self->err)
        return;
    self->err = self->kind->write(self->context, &self->page->text, &self->why);
    if (!self->err && self->page->text.failed)
        self->err = tt_fail(TT_ERR_NO_MEMORY, &self->why, "no memory for the page");
}

static void start(struct tt_page_writer *self, uv_loop_t *loop);

static void on_run(struct tt_pool_work *work) {
    struct tt_page_writer *self = work->data;
    if (self->has_begun)
        self->kind->end(self->context);
    call_askers(&self->behind);
}

static void call_askers(struct tt_loop_behind *behind) {
    struct tt_page_writer *self = TT_CONTAINER_OF(behind, struct tt_page_writer, behind);
    struct tt_list_node *node;
    while ((node = tt_list_first(&self->served)) != NULL) {
        struct tt_page_asker *asker = TT_CONTAINER_OF(node, struct tt_page_asker, node);
        tt_list_remove(node);
        asker->done(asker, self->page, self->err, &self->why);
        if (self->turn && !tt_list_empty(&self->served) && tt_loop_turn_is_over(self->turn)) {
            tt_loop_turn_defer(self->turn, behind);
            return;
        }
    }
    tt_shared_page_unref(self->page);
    self->page = NULL;
    self->is_writing = false;
    if (!tt_list_empty(&self->waiting))
        start(self, self->work.loop);
}

static int64_t key_of(struct tt_list_node *node) {
    return TT_CONTAINER_OF(node, struct tt_page_asker, node)->key;
}

/* Begins the page of the one that has waited the longest, for all with its key. An error is
 * reported as the page is, later. */
static void start(struct tt_page_writer *self, uv_loop_t *loop) {
    int64_t key = key_of(tt_list_first(&self->waiting));
    struct tt_list others;
    struct tt_list_node *node;
    tt_list_init(&others);
    while ((node = tt_list_first(&self->waiting)) != NULL) {
        tt_list_remove(node);
        tt_list_push_back(key_of(node) == key ? &self->served : &others, node);
    }
    while ((node = tt_list_first(&others)) != NULL) {
        tt_list_remove(node);
        tt_list_push_back(&self->waiting, node);
    }
    self->is_writing = true;
    self->has_begun = false;
    self->page = calloc(1, sizeof(*self->page));
    if (self->page) {
        self->page->reference_count = 1;
        self->err = self->kind->begin(self->context, key, &self->why);
        self->has_begun = !self->err;
    } else {
        self->err = tt_fail(TT_ERR_NO_MEMORY, &self->why, "no memory for the page");
    }
    tt_pool_work_queue(loop, &self->work, run, on_run);
}

void tt_page_writer_ask(struct tt_page_writer *self, uv_loop_t *loop, struct tt_page_asker *asker) {
    tt_list_push_back(&self->waiting, &asker->node);
    if (!self->is_writing)
        start(self, loop);
}
