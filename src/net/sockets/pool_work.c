#include "net/sockets/pool_work.h"

#include "base/threads/time_slice.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

enum { NICENESS = 5 };

void tt_pool_work_enter(void) {
    static _Thread_local bool is_known;
    if (is_known)
        return;
    is_known = true;
    pthread_setname_np(pthread_self(), "tutti-bodies");
    tt_time_slice_be_usual(); /* a connections' thread created it */
    /* Of this thread only; where it is not allowed, the work competes with the rest. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
}
