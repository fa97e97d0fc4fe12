#include "metrics/exposition.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:"

/* Of a family or a label. */
static bool is_name(const char *name) {
    return strspn(name, LETTERS) > 0 && name[strspn(name, LETTERS "0123456789")] == '\0';
}

void tt_exposition_family(struct tt_exposition *self, const char *name, const char *type,
                          const char *help) {
    tt_assert(!self->in_sample);
    tt_assert(is_name(name));
    tt_assert(!strchr(help, '\n'));
    tt_text_printf(self->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void tt_exposition_begin(struct tt_exposition *self, const char *name, const char *suffix) {
    tt_assert(!self->in_sample);
    tt_text_puts(self->text, name);
    tt_text_puts(self->text, suffix);
    self->in_sample = true;
    self->has_labels = false;
}

static void next_label(struct tt_exposition *self, const char *label) {
    tt_assert(self->in_sample);
    tt_assert(is_name(label));
    tt_text_puts(self->text, self->has_labels ? "," : "{");
    tt_text_puts(self->text, label);
    tt_text_puts(self->text, "=\"");
    self->has_labels = true;
}

void tt_exposition_label(struct tt_exposition *self, const char *label, const char *value) {
    next_label(self, label);
    for (const char *at = value;;) {
        size_t plain = strcspn(at, "\n\"\\");
        tt_text_append(self->text, at, plain);
        at += plain;
        if (!*at)
            break;
        tt_text_append(self->text, "\\", 1);
        tt_text_append(self->text, *at == '\n' ? "n" : at, 1);
        at++;
    }
    tt_text_puts(self->text, "\"");
}

void tt_exposition_label_integer(struct tt_exposition *self, const char *label, int64_t value) {
    next_label(self, label);
    tt_text_put_integer(self->text, value);
    tt_text_puts(self->text, "\"");
}

/* Ends the labels. What follows is the value. */
static const char *end(struct tt_exposition *self) {
    tt_assert(self->in_sample);
    self->in_sample = false;
    return self->has_labels ? "}" : "";
}

void tt_exposition_integer(struct tt_exposition *self, int64_t value) {
    tt_text_puts(self->text, end(self));
    tt_text_puts(self->text, " ");
    tt_text_put_integer(self->text, value);
    tt_text_puts(self->text, "\n");
}

void tt_exposition_real(struct tt_exposition *self, double value) {
    tt_text_printf(self->text, "%s %.9g\n", end(self), value);
}

void tt_exposition_seconds(struct tt_exposition *self, double value) {
    tt_text_printf(self->text, "%s %.9f\n", end(self), value);
}
