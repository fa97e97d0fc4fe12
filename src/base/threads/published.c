#include "base/threads/published.h"

void tt_shared_init(struct tt_shared *self, void (*free)(struct tt_shared *self)) {
    tt_refcount_init(&self->references, 1);
    self->free = free;
}

void tt_shared_unref(struct tt_shared *self) {
    if (self && tt_refcount_unref(&self->references))
        self->free(self);
}

void tt_published_init(struct tt_published *self) {
    tt_lock_init(&self->lock);
    self->current = NULL;
    atomic_init(&self->version, 0);
}

void tt_published_fini(struct tt_published *self) {
    tt_shared_unref(self->current);
    self->current = NULL;
    tt_lock_fini(&self->lock);
}

void tt_published_set(struct tt_published *self, struct tt_shared *take_value) {
    tt_lock_take(&self->lock);
    struct tt_shared *former = self->current;
    self->current = take_value;
    atomic_fetch_add_explicit(&self->version, 1, memory_order_release);
    tt_lock_give(&self->lock);
    tt_shared_unref(former);
}

void tt_published_refresh(struct tt_published *self, struct tt_published_view *view) {
    struct tt_shared *former = view->value;
    tt_lock_take(&self->lock);
    view->version = atomic_load_explicit(&self->version, memory_order_relaxed);
    view->value = self->current;
    if (view->value)
        tt_refcount_ref(&view->value->references);
    tt_lock_give(&self->lock);
    tt_shared_unref(former);
}

void tt_published_view_fini(struct tt_published_view *view) {
    tt_shared_unref(view->value);
    *view = (struct tt_published_view){0};
}
