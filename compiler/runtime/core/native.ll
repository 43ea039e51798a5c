; The native part of the runtime: the thread pool of parallel loops, temporaries, and the timing loop.
; native.py fills in ${PAUSE} (a spin hint), and the numbers of system calls: ${FUTEX} and ${ARCH_PRCTL}.
;
; A launch publishes (fn, ctx, n, threads) and then its number, @job. It gives each thread a range of the tasks in a
; row: the same thread has the same part of equal loops, so that what one loop wrote is read where it was written. A
; thread that is through with its range goes on with what is left of others'. @tickets[t] holds number << 32 | tasks
; claimed of range t; one of another launch says that nothing of the range is claimed yet. Tasks are claimed by
; compare-and-swap on it. A launch is not over before all of its ranges are claimed, so a claim that succeeds belongs
; to the launch whose fields were read. While fields change, and before the first launch, @job is 0.
; The launching thread claims tasks too and waits for tasks done, not for threads: one that never woke up,
; or lost its core, delays nothing but what it had claimed.

@job = internal global i64 0, align 128
@job_fn = internal global ptr null, align 8
@job_ctx = internal global ptr null, align 8
@job_n = internal global i64 0, align 8
@job_threads = internal global i64 1, align 8
@launches = internal global i64 0, align 8       ; the number of the last one
@tickets = internal global [1024 x [16 x i64]] zeroinitializer, align 128
@done = internal global i64 0, align 128
@generation = internal global i32 0, align 128   ; futex word of idle workers
@waiting = internal global i32 0, align 128      ; futex word of the launching thread
@sleepers = internal global i32 0, align 128
@busy = internal global i32 0, align 128         ; a launch is active
@threads = internal global i32 1, align 128      ; wanted, the launching thread included
@workers = internal global i32 0, align 8        ; running
@stopping = internal global i32 0, align 8
@handles = internal global [1024 x i64] zeroinitializer, align 8
@cores = internal global [1024 x i32] zeroinitializer, align 8 ; worker i is pinned to cores[i], if
@alone_until = internal global i64 0, align 8    ; run serially until then (CLOCK_MONOTONIC, ns); 0: no
@alone_shift = internal global i64 0, align 8    ; log2 of how many times a stall's length that is
@alone_last = internal global i64 0, align 8     ; when it last was over, or a stall remembered
@timing = internal global i32 0, align 8         ; loops of tunefarm_time under way: no launch does alone then
@tiles = internal global i32 0, align 8          ; this process may use them
@pinned = internal global i32 0, align 8         ; there are this many
@kept = internal global [16 x ptr] zeroinitializer, align 64
@callback = internal global ptr null, align 8   ; what calls Python's functions
@oldest = internal global i32 0, align 8         ; whose turn it is to go when no place is free

declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)
declare i32 @sched_yield()
declare i32 @sched_setaffinity(i32, i64, ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.umin.i32(i32, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
${PAUSE_DECLARE}

; ---- clocks and futexes --------------------------------------------------------------------------------

define internal i64 @clock_ns(i32 %clock) {
  %spec = alloca [2 x i64], align 8
  %rc = call i32 @clock_gettime(i32 %clock, ptr %spec)
  %seconds = load i64, ptr %spec, align 8
  %nanos.p = getelementptr i64, ptr %spec, i64 1
  %nanos = load i64, ptr %nanos.p, align 8
  %scaled = mul i64 %seconds, 1000000000
  %ns = add i64 %scaled, %nanos
  ret i64 %ns
}

define internal void @futex_wait(ptr %word, i32 %expected) {
  %rc = call i64 (i64, ...) @syscall(i64 ${FUTEX}, ptr %word, i32 128, i32 %expected, ptr null, ptr null, i32 0)
  ret void
}

define internal void @futex_wake(ptr %word, i32 %count) {
  %rc = call i64 (i64, ...) @syscall(i64 ${FUTEX}, ptr %word, i32 129, i32 %count, ptr null, ptr null, i32 0)
  ret void
}

; ---- claiming and running tasks ------------------------------------------------------------------------

; What thread `me` can do of the launch that is active: its own range, then what is left of the others'.
define internal void @work(i32 %me) noinline {
entry:
  %me64 = zext i32 %me to i64
  br label %look
look:
  %job = load atomic i64, ptr @job acquire, align 8
  %none = icmp eq i64 %job, 0
  br i1 %none, label %out, label %read
read:
  %n = load atomic i64, ptr @job_n acquire, align 8
  %fn = load atomic ptr, ptr @job_fn acquire, align 8
  %ctx = load atomic ptr, ptr @job_ctx acquire, align 8
  %threads = load atomic i64, ptr @job_threads acquire, align 8
  %still = load atomic i64, ptr @job acquire, align 8
  %whole = icmp eq i64 %still, %job
  br i1 %whole, label %begin, label %look
begin:
  %high = shl i64 %job, 32
  %own = urem i64 %me64, %threads
  br label %range
range:
  %k = phi i64 [ 0, %begin ], [ %k.next, %next ]
  %finished = phi i64 [ 0, %begin ], [ %finished.now, %next ]
  %sum = add i64 %own, %k
  %at = urem i64 %sum, %threads
  %at.next = add i64 %at, 1
  %low.n = mul i64 %at, %n
  %low = udiv i64 %low.n, %threads
  %end.n = mul i64 %at.next, %n
  %end = udiv i64 %end.n, %threads
  %size = sub i64 %end, %low
  %ticket.p = getelementptr [1024 x [16 x i64]], ptr @tickets, i64 0, i64 %at
  br label %ticket
ticket:
  %finished.now = phi i64 [ %finished, %range ], [ %finished.now, %claim ], [ %finished.more, %ran ]
  %ticket.is = load atomic i64, ptr %ticket.p acquire, align 8
  %of = lshr i64 %ticket.is, 32
  %begun = icmp eq i64 %of, %job
  br i1 %begun, label %count, label %fresh
fresh:                                           ; of an earlier launch, if this one is not over
  %now = load atomic i64, ptr @job acquire, align 8
  %active = icmp eq i64 %now, %job
  br i1 %active, label %count, label %over
count:
  %claimed = and i64 %ticket.is, 4294967295
  %from = select i1 %begun, i64 %claimed, i64 0
  %more = icmp ult i64 %from, %size
  br i1 %more, label %claim, label %next
claim:
  %left = sub i64 %size, %from
  %part = lshr i64 %left, 2
  %taken = call i64 @llvm.umax.i64(i64 %part, i64 1)
  %to = add i64 %from, %taken
  %ticket.new = or i64 %high, %to
  %swap = cmpxchg ptr %ticket.p, i64 %ticket.is, i64 %ticket.new acq_rel acquire, align 8
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %run, label %ticket
run:
  %first = add i64 %low, %from
  %last = add i64 %low, %to
  br label %task
task:
  %i = phi i64 [ %first, %run ], [ %i.next, %task ]
  call void %fn(i64 %i, ptr %ctx)
  %i.next = add i64 %i, 1
  %again = icmp ult i64 %i.next, %last
  br i1 %again, label %task, label %ran
ran:
  %finished.more = add i64 %finished.now, %taken
  br label %ticket
next:
  %k.next = add i64 %k, 1
  %others = icmp ult i64 %k.next, %threads
  br i1 %others, label %range, label %over
over:
  %mine = phi i64 [ %finished.now, %fresh ], [ %finished.now, %next ]
  %any = icmp ne i64 %mine, 0
  br i1 %any, label %tell, label %out
tell:
  %before = atomicrmw add ptr @done, i64 %mine seq_cst, align 8
  %after = add i64 %before, %mine
  %all = icmp eq i64 %after, %n
  br i1 %all, label %notify, label %out
notify:
  %parked = load atomic i32, ptr @waiting seq_cst, align 4
  %asleep = icmp ne i32 %parked, 0
  br i1 %asleep, label %wake, label %out
wake:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  call void @futex_wake(ptr @waiting, i32 1)
  br label %out
out:
  ret void
}

; Spin until all n tasks are done; false when `budget` ns went by first.
define internal i1 @spin_until_done(i64 %n, i64 %budget) noinline {
entry:
  %start = call i64 @clock_ns(i32 1)
  br label %round
round:
  br label %look
look:
  %k = phi i32 [ 0, %round ], [ %k.next, %pause ]
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %done, %n
  br i1 %all, label %yes, label %pause
pause:
  ${PAUSE}
  %k.next = add i32 %k, 1
  %again = icmp ult i32 %k.next, 32
  br i1 %again, label %look, label %clock
clock:
  %now = call i64 @clock_ns(i32 1)
  %spent = sub i64 %now, %start
  %left = icmp ult i64 %spent, %budget
  br i1 %left, label %round, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @wait_until_done(i64 %n, i64 %budget) noinline {
entry:
  %quick = call i1 @spin_until_done(i64 %n, i64 %budget)
  br i1 %quick, label %out, label %long
long:
  %wall = call i64 @clock_ns(i32 1)
  %cpu = call i64 @clock_ns(i32 2)
  br label %park
park:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %done, %n
  br i1 %all, label %woken, label %sleep
sleep:
  call void @futex_wait(ptr @waiting, i32 1)
  br label %park
woken:
  store atomic i32 0, ptr @waiting seq_cst, align 4
  call void @note_stall(i64 %wall, i64 %cpu)
  br label %out
out:
  ret void
}

; The launching thread slept from `wall` on, when the process had used `cpu`. If the process hardly ran meanwhile,
; a worker had lost its core to another process, with tasks that nobody else could take. One such stall is remembered.
; Where another one follows so soon that stalls leave less of the time than one thread is of all, doing without workers
; loses less, and so the launches of the next while do: for twice as long as this one waited, and twice as long again
; (up to 32 times) for each stall that follows as soon upon that.
define internal void @note_stall(i64 %wall, i64 %cpu) noinline {
entry:
  %wall.now = call i64 @clock_ns(i32 1)
  %cpu.now = call i64 @clock_ns(i32 2)
  %waited = sub i64 %wall.now, %wall
  %ran = sub i64 %cpu.now, %cpu
  %twice = shl i64 %ran, 1
  %idle = icmp ult i64 %twice, %waited
  %long = icmp ugt i64 %waited, 100000
  %lost = and i1 %idle, %long
  %timing = load atomic i32, ptr @timing monotonic, align 4
  %free = icmp eq i32 %timing, 0
  %stalled = and i1 %lost, %free
  br i1 %stalled, label %note, label %out
note:
  %last = load atomic i64, ptr @alone_last monotonic, align 8
  %since = sub i64 %wall, %last
  %all = load atomic i32, ptr @threads monotonic, align 4
  %all64 = zext i32 %all to i64
  %others = sub i64 %all64, 1
  %shares = call i64 @llvm.umax.i64(i64 %others, i64 1)
  %near = udiv i64 %waited, %shares
  %soon = icmp ult i64 %since, %near
  %shift = load atomic i64, ptr @alone_shift monotonic, align 8
  %up = add i64 %shift, 1
  %most = call i64 @llvm.umin.i64(i64 %up, i64 5)
  %times = select i1 %soon, i64 %most, i64 0
  store atomic i64 %times, ptr @alone_shift monotonic, align 8
  br i1 %soon, label %avoid, label %remember
remember:
  store atomic i64 %wall.now, ptr @alone_last monotonic, align 8
  br label %out
avoid:
  %length = shl i64 %waited, %times
  %until = add i64 %wall.now, %length
  store atomic i64 %until, ptr @alone_until monotonic, align 8
  br label %out
out:
  ret void
}

; Whether launches do without workers for now. Not while they are timed: one stall would show as a sample of one thread.
define internal i1 @doing_alone() {
entry:
  %until = load atomic i64, ptr @alone_until monotonic, align 8
  %set = icmp ne i64 %until, 0
  %timing = load atomic i32, ptr @timing monotonic, align 4
  %free = icmp eq i32 %timing, 0
  %may = and i1 %set, %free
  br i1 %may, label %look, label %no
look:
  %now = call i64 @clock_ns(i32 1)
  %over = icmp uge i64 %now, %until
  br i1 %over, label %reset, label %yes
reset:
  store atomic i64 %now, ptr @alone_last monotonic, align 8
  store atomic i64 0, ptr @alone_until monotonic, align 8
  br label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; ---- workers -------------------------------------------------------------------------------------------

; Keep the calling worker on its core. Refused (a core that is gone): it runs where the system puts it.
define internal void @pin(i32 %worker) noinline {
entry:
  %pinned = load atomic i32, ptr @pinned acquire, align 4
  %mine = icmp ult i32 %worker, %pinned
  br i1 %mine, label %set, label %out
set:
  %mask = alloca [128 x i8], align 8
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 128, i1 false)
  %slot = getelementptr [1024 x i32], ptr @cores, i32 0, i32 %worker
  %core = load i32, ptr %slot, align 4
  %byte = lshr i32 %core, 3
  %bit = and i32 %core, 7
  %where = getelementptr i8, ptr %mask, i32 %byte
  %bit8 = trunc i32 %bit to i8
  %value = shl i8 1, %bit8
  store i8 %value, ptr %where, align 1
  %rc = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %out
out:
  ret void
}

define internal ptr @worker(ptr %number) noinline {
entry:
  %number64 = ptrtoint ptr %number to i64
  %number32 = trunc i64 %number64 to i32
  %me = add i32 %number32, 1                     ; the launching thread is number 0
  call void @pin(i32 %number32)
  br label %loop
loop:
  %seen = load atomic i32, ptr @generation acquire, align 4
  %stop = load atomic i32, ptr @stopping acquire, align 4
  %leave = icmp ne i32 %stop, 0
  br i1 %leave, label %out, label %help
help:
  call void @work(i32 %me)
  %start = call i64 @clock_ns(i32 1)
  br label %round
round:
  br label %look
look:
  %k = phi i32 [ 0, %round ], [ %k.next, %pause ]
  %now = load atomic i32, ptr @generation acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %pause, label %loop
pause:
  ${PAUSE}
  %k.next = add i32 %k, 1
  %again = icmp ult i32 %k.next, 32
  br i1 %again, label %look, label %clock
clock:
  %time = call i64 @clock_ns(i32 1)
  %spent = sub i64 %time, %start
  %left = icmp ult i64 %spent, 50000
  br i1 %left, label %round, label %park
park:
  %was = atomicrmw add ptr @sleepers, i32 1 seq_cst, align 4
  call void @futex_wait(ptr @generation, i32 %seen)
  %is = atomicrmw sub ptr @sleepers, i32 1 seq_cst, align 4
  br label %loop
out:
  ret ptr null
}

; Start workers up to `wanted`, holding `busy`. Fewer, when the system refuses: then that is the new limit.
; Workers leave signals to Python's threads, except those a fault raises in the thread itself.
define internal void @grow(i32 %wanted) noinline {
entry:
  %all = alloca [16 x i64], align 8
  %old = alloca [16 x i64], align 8
  %r0 = call i32 @sigfillset(ptr %all)
  %r1 = call i32 @sigdelset(ptr %all, i32 4)
  %r2 = call i32 @sigdelset(ptr %all, i32 6)
  %r3 = call i32 @sigdelset(ptr %all, i32 7)
  %r4 = call i32 @sigdelset(ptr %all, i32 8)
  %r5 = call i32 @sigdelset(ptr %all, i32 11)
  %r6 = call i32 @pthread_sigmask(i32 2, ptr %all, ptr %old)
  br label %look
look:
  %have = load atomic i32, ptr @workers monotonic, align 4
  %enough = icmp uge i32 %have, %wanted
  br i1 %enough, label %out, label %create
create:
  %slot = getelementptr [1024 x i64], ptr @handles, i32 0, i32 %have
  %have64 = zext i32 %have to i64
  %number = inttoptr i64 %have64 to ptr
  %rc = call i32 @pthread_create(ptr %slot, ptr null, ptr @worker, ptr %number)
  %more = add i32 %have, 1
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %count, label %refused
count:
  store atomic i32 %more, ptr @workers monotonic, align 4
  br label %look
refused:
  store atomic i32 %more, ptr @threads monotonic, align 4
  br label %out
out:
  %r7 = call i32 @pthread_sigmask(i32 2, ptr %old, ptr null)
  ret void
}

; ---- launching -----------------------------------------------------------------------------------------

define internal void @run_serially(ptr %fn, ptr %ctx, i64 %n) noinline {
entry:
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %task, label %out
task:
  %i = phi i64 [ 0, %entry ], [ %i.next, %task ]
  call void %fn(i64 %i, ptr %ctx)
  %i.next = add i64 %i, 1
  %again = icmp ult i64 %i.next, %n
  br i1 %again, label %task, label %out
out:
  ret void
}

; Call fn(i, ctx) for each i in [0, n), from several threads. A call made while another is active, whether
; from one of its tasks or from another thread, runs serially. Returns 0.
define i32 @tunefarm_parallel_for(ptr %fn, ptr %ctx, i64 %n) {
entry:
  %threads = load atomic i32, ptr @threads monotonic, align 4
  %alone = icmp ule i32 %threads, 1
  %beyond = add i64 %n, -2
  %odd = icmp uge i64 %beyond, 2147483646        ; n < 2, or too many for half a ticket
  %plain = or i1 %alone, %odd
  br i1 %plain, label %serial, label %able
able:
  %avoid = call i1 @doing_alone()
  br i1 %avoid, label %serial, label %lock
lock:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %swap, 1
  br i1 %free, label %launch, label %serial
launch:
  %wanted = add i32 %threads, -1
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %few = icmp ult i32 %workers, %wanted
  br i1 %few, label %more, label %publish
more:
  call void @grow(i32 %wanted)
  br label %publish
publish:
  %start = call i64 @clock_ns(i32 1)
  store atomic i64 0, ptr @job seq_cst, align 8
  %before = load atomic i64, ptr @launches monotonic, align 8
  %number = add i64 %before, 1
  %round = icmp eq i64 %number, 4294967296
  br i1 %round, label %anew, label %fields
anew:                                            ; numbers begin again: no ticket may look like one of them
  call void @llvm.memset.p0.i64(ptr align 128 @tickets, i8 0, i64 131072, i1 false)
  br label %fields
fields:
  %job = select i1 %round, i64 1, i64 %number
  %threads64 = zext i32 %threads to i64
  store atomic i64 %job, ptr @launches monotonic, align 8
  store atomic i64 %threads64, ptr @job_threads release, align 8
  store atomic ptr %fn, ptr @job_fn release, align 8
  store atomic ptr %ctx, ptr @job_ctx release, align 8
  store atomic i64 %n, ptr @job_n release, align 8
  store atomic i64 0, ptr @done release, align 8
  store atomic i64 %job, ptr @job release, align 8
  %old = atomicrmw add ptr @generation, i32 1 seq_cst, align 4
  fence seq_cst
  %asleep = load atomic i32, ptr @sleepers seq_cst, align 4
  %sleeping = icmp ne i32 %asleep, 0
  br i1 %sleeping, label %wake, label %help
wake:
  %others = add i64 %n, -1
  %useful = call i64 @llvm.umin.i64(i64 %others, i64 1024)
  %useful32 = trunc i64 %useful to i32
  %count = call i32 @llvm.umin.i32(i32 %useful32, i32 %wanted)
  call void @futex_wake(ptr @generation, i32 %count)
  br label %help
help:
  call void @work(i32 0)
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all = icmp eq i64 %done, %n
  br i1 %all, label %unlock, label %wait
wait:
  ; spin for an eighth of the time the launch took, at least 20 us and at most 200: parking costs a wake-up,
  ; spinning costs a worker that waits for this very core
  %now = call i64 @clock_ns(i32 1)
  %spent = sub i64 %now, %start
  %eighth = lshr i64 %spent, 3
  %low = call i64 @llvm.umax.i64(i64 %eighth, i64 20000)
  %budget = call i64 @llvm.umin.i64(i64 %low, i64 200000)
  call void @wait_until_done(i64 %n, i64 %budget)
  br label %unlock
unlock:
  store atomic i32 0, ptr @busy release, align 4
  ret i32 0
serial:
  call void @run_serially(ptr %fn, ptr %ctx, i64 %n)
  ret i32 0
}

define i32 @tunefarm_get_threads() {
  %n = load atomic i32, ptr @threads monotonic, align 4
  ret i32 %n
}

; Wait for an active launch to end and keep others from starting.
define internal void @lock_pool() {
entry:
  br label %lock
lock:
  %swap = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %swap, 1
  br i1 %free, label %locked, label %yield
yield:
  %y = call i32 @sched_yield()
  br label %lock
locked:
  ret void
}

; End all workers, holding `busy`. The next launch starts those it wants.
define internal void @stop_workers() noinline {
entry:
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %some = icmp ne i32 %workers, 0
  br i1 %some, label %stop, label %out
stop:
  store atomic i32 1, ptr @stopping seq_cst, align 4
  %old = atomicrmw add ptr @generation, i32 1 seq_cst, align 4
  call void @futex_wake(ptr @generation, i32 2147483647)
  br label %join
join:
  %i = phi i32 [ 0, %stop ], [ %i.next, %join ]
  %slot = getelementptr [1024 x i64], ptr @handles, i32 0, i32 %i
  %handle = load i64, ptr %slot, align 8
  %rc = call i32 @pthread_join(i64 %handle, ptr null)
  %i.next = add i32 %i, 1
  %again = icmp ult i32 %i.next, %workers
  br i1 %again, label %join, label %joined
joined:
  store atomic i32 0, ptr @workers monotonic, align 4
  store atomic i32 0, ptr @stopping seq_cst, align 4
  br label %out
out:
  ret void
}

; Use n threads from the next launch on. Waits for an active launch; surplus workers end first.
define void @tunefarm_set_threads(i32 %n) {
entry:
  call void @lock_pool()
  %workers = load atomic i32, ptr @workers monotonic, align 4
  %surplus = icmp uge i32 %workers, %n
  br i1 %surplus, label %shrink, label %set
shrink:
  call void @stop_workers()
  br label %set
set:
  store atomic i32 %n, ptr @threads monotonic, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; Pin worker i to list[i] for the first n workers, from the next launch on; none when n is 0.
define void @tunefarm_set_cores(ptr %list, i32 %n) {
entry:
  call void @lock_pool()
  call void @stop_workers()
  br label %copy
copy:
  %i = phi i32 [ 0, %entry ], [ %i.next, %one ]
  %more = icmp ult i32 %i, %n
  br i1 %more, label %one, label %copied
one:
  %from = getelementptr i32, ptr %list, i32 %i
  %core = load i32, ptr %from, align 4
  %to = getelementptr [1024 x i32], ptr @cores, i32 0, i32 %i
  store i32 %core, ptr %to, align 4
  %i.next = add i32 %i, 1
  br label %copy
copied:
  store atomic i32 %n, ptr @pinned release, align 4
  store atomic i32 0, ptr @busy release, align 4
  ret void
}

; In a forked child: the workers are gone, and a launch active in the parent is not active here.
define void @tunefarm_after_fork() {
  store atomic i64 0, ptr @job seq_cst, align 8
  store atomic i64 0, ptr @done seq_cst, align 8
  store atomic i32 0, ptr @waiting seq_cst, align 4
  store atomic i32 0, ptr @sleepers seq_cst, align 4
  store atomic i32 0, ptr @workers seq_cst, align 4
  store atomic i32 0, ptr @stopping seq_cst, align 4
  store atomic i64 0, ptr @alone_until seq_cst, align 8
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}

; ---- the matrix unit ------------------------------------------------------------------------------------
; Linux gives a process the registers of x86's tiles once it asked for them, in all of its threads:
; arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA). Kernels that use tiles ask here first.

define i32 @tunefarm_tiles() {
entry:
  %before = load atomic i32, ptr @tiles monotonic, align 4
  %granted = icmp eq i32 %before, 1
  br i1 %granted, label %yes, label %ask
ask:
  %rc = call i64 (i64, ...) @syscall(i64 ${ARCH_PRCTL}, i64 4131, i64 18)
  %now = icmp eq i64 %rc, 0
  br i1 %now, label %keep, label %no
keep:
  store atomic i32 1, ptr @tiles monotonic, align 4
  br label %yes
yes:
  ret i32 1
no:
  ret i32 0
}

; ---- temporaries ---------------------------------------------------------------------------------------
; A kernel asks for the same temporaries at each call, and the kernels of a model for some of different sizes. 16 blocks
; of 64 KiB and more are kept for the next call, so that their pages need not be faulted in again. Of them at most 4 are
; larger than 16 MiB, and none than 256 MiB. The 64 bytes before a block hold its capacity.

define ptr @tunefarm_alloc(i64 %bytes) {
entry:
  %bad = icmp ugt i64 %bytes, 140737488355328
  br i1 %bad, label %none, label %start
start:
  %up = add i64 %bytes, 63
  %size = and i64 %up, -64
  br label %look
look:
  %i = phi i32 [ 0, %start ], [ %i.next, %next ]
  %slot = getelementptr [16 x ptr], ptr @kept, i32 0, i32 %i
  %seen = load atomic ptr, ptr %slot monotonic, align 8
  %empty = icmp eq ptr %seen, null
  br i1 %empty, label %next, label %take
take:
  %block = atomicrmw xchg ptr %slot, ptr null acquire, align 8
  %gone = icmp eq ptr %block, null
  br i1 %gone, label %next, label %measure
measure:
  %header = getelementptr i8, ptr %block, i64 -64
  %capacity = load i64, ptr %header, align 8
  %large = icmp uge i64 %capacity, %size
  %quarter = lshr i64 %capacity, 2
  %close = icmp ule i64 %quarter, %size
  %fits = and i1 %large, %close
  br i1 %fits, label %reuse, label %back
back:
  %other = atomicrmw xchg ptr %slot, ptr %block acq_rel, align 8
  %nothing = icmp eq ptr %other, null
  br i1 %nothing, label %next, label %displaced
displaced:
  %other.header = getelementptr i8, ptr %other, i64 -64
  call void @free(ptr %other.header)
  br label %next
next:
  %i.next = add i32 %i, 1
  %again = icmp ult i32 %i.next, 16
  br i1 %again, label %look, label %fresh
fresh:
  %total = add i64 %size, 64
  %nearly = add i64 %total, 1048576
  %huge = and i64 %nearly, -2097152                ; whole pages of 2 MiB, if a last one is at least half used
  %some = icmp ugt i64 %total, 2097152
  br i1 %some, label %wide, label %narrow
narrow:
  %small.base = call ptr @aligned_alloc(i64 64, i64 %total)
  br label %got
wide:                                             ; fewer address translations for panels of many rows
  %whole = call i64 @llvm.umax.i64(i64 %total, i64 %huge)
  %wide.base = call ptr @aligned_alloc(i64 2097152, i64 %whole)
  %absent = icmp eq ptr %wide.base, null
  br i1 %absent, label %none, label %advise
advise:
  %advised = call i32 @madvise(ptr %wide.base, i64 %huge, i32 14) ; MADV_HUGEPAGE; not every kernel has it
  br label %got
got:
  %base = phi ptr [ %small.base, %narrow ], [ %wide.base, %advise ]
  %failed = icmp eq ptr %base, null
  br i1 %failed, label %none, label %made
made:
  store i64 %size, ptr %base, align 8
  %data = getelementptr i8, ptr %base, i64 64
  ret ptr %data
reuse:
  ret ptr %block
none:
  ret ptr null
}

define void @tunefarm_free(ptr %block) {
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %out, label %measure
measure:
  %header = getelementptr i8, ptr %block, i64 -64
  %capacity = load i64, ptr %header, align 8
  %offset = sub i64 %capacity, 65536
  %keepable = icmp ule i64 %offset, 268369920
  br i1 %keepable, label %choose, label %release
choose:
  %is.large = icmp ugt i64 %capacity, 16777216
  %places = select i1 %is.large, i32 4, i32 16
  br label %look
look:
  %i = phi i32 [ 0, %choose ], [ %i.next, %next ]
  %slot = getelementptr [16 x ptr], ptr @kept, i32 0, i32 %i
  %swap = cmpxchg ptr %slot, ptr null, ptr %block release monotonic, align 8
  %kept = extractvalue { ptr, i1 } %swap, 1
  br i1 %kept, label %out, label %next
next:
  %i.next = add i32 %i, 1
  %again = icmp ult i32 %i.next, %places
  br i1 %again, label %look, label %displace
displace:                                        ; sizes no kernel asks for any more must not fill it for good
  %turn = atomicrmw add ptr @oldest, i32 1 monotonic, align 8
  %last = sub i32 %places, 1
  %place = and i32 %turn, %last
  %place.p = getelementptr [16 x ptr], ptr @kept, i32 0, i32 %place
  %gone = atomicrmw xchg ptr %place.p, ptr %block acq_rel, align 8
  %taken = icmp eq ptr %gone, null
  br i1 %taken, label %out, label %drop
drop:
  %gone.header = getelementptr i8, ptr %gone, i64 -64
  call void @free(ptr %gone.header)
  br label %out
release:
  call void @free(ptr %header)
  br label %out
out:
  ret void
}

; ---- Python's functions ----------------------------------------------------------------------------------
; Kernels call registered functions through a hook, which a process with Python sets. Without one: -3.

define void @tunefarm_set_callback(ptr %hook) {
  store atomic ptr %hook, ptr @callback seq_cst, align 8
  ret void
}

define i32 @tunefarm_call_packed(ptr %name, ptr %signature, ptr %slots) {
entry:
  %hook = load atomic ptr, ptr @callback acquire, align 8
  %none = icmp eq ptr %hook, null
  br i1 %none, label %absent, label %call
call:
  %code = call i32 %hook(ptr %name, ptr %signature, ptr %slots)
  ret i32 %code
absent:
  ret i32 -3
}

; ---- timing --------------------------------------------------------------------------------------------

; Call packed(args) `number` times; ns by CLOCK_MONOTONIC_RAW. If a call fails: -1 - its code's low 31 bits.
define i64 @tunefarm_time(ptr %packed, ptr %args, i64 %number) {
entry:
  %others = atomicrmw add ptr @timing, i32 1 monotonic, align 4
  %start = call i64 @clock_ns(i32 4)
  br label %loop
loop:
  %left = phi i64 [ %number, %entry ], [ %left.next, %next ]
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %run, label %end
run:
  %rc = call i32 %packed(ptr %args)
  %ok = icmp eq i32 %rc, 0
  br i1 %ok, label %next, label %failed
next:
  %left.next = add i64 %left, -1
  br label %loop
end:
  %stop = call i64 @clock_ns(i32 4)
  %spent = sub i64 %stop, %start
  %ended = atomicrmw add ptr @timing, i32 -1 monotonic, align 4
  ret i64 %spent
failed:
  %broken = atomicrmw add ptr @timing, i32 -1 monotonic, align 4
  %code = and i32 %rc, 2147483647
  %wide = zext i32 %code to i64
  %result = sub i64 -1, %wide
  ret i64 %result
}
