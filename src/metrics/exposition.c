#include "metrics/exposition.h"

#include <inttypes.h>

void tt_exposition_family(struct tt_exposition *self, const char *name, const char *type,
                          const char *help) {
    tt_text_printf(self->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void tt_exposition_begin(struct tt_exposition *self, const char *name, const char *suffix) {
    tt_text_puts(self->text, name);
    tt_text_puts(self->text, suffix);
    self->has_labels = false;
}

static void next_label(struct tt_exposition *self, const char *label) {
    tt_text_printf(self->text, "%s%s=\"", self->has_labels ? "," : "{", label);
    self->has_labels = true;
}

void tt_exposition_label(struct tt_exposition *self, const char *label, const char *value) {
    next_label(self, label);
    for (const char *at = value; *at; at++) {
        if (*at == '\n')
            tt_text_puts(self->text, "\\n");
        else
            tt_text_printf(self->text, "%s%c", *at == '"' || *at == '\\' ? "\\" : "", *at);
    }
    tt_text_puts(self->text, "\"");
}

void tt_exposition_label_integer(struct tt_exposition *self, const char *label, int64_t value) {
    next_label(self, label);
    tt_text_printf(self->text, "%" PRId64 "\"", value);
}

void tt_exposition_integer(struct tt_exposition *self, int64_t value) {
    tt_text_printf(self->text, "%s %" PRId64 "\n", self->has_labels ? "}" : "", value);
}

void tt_exposition_real(struct tt_exposition *self, double value) {
    tt_text_printf(self->text, "%s %.9g\n", self->has_labels ? "}" : "", value);
}
