; What a health check runs. Only 128-bit-safe vectors, no fused operations: the results are exact everywhere.

; n times x := x * m + c on 16 doubles in registers
define void @compute(ptr %state, double %m, double %c, i64 %n) {
entry:
  %p1 = getelementptr <4 x double>, ptr %state, i64 1
  %p2 = getelementptr <4 x double>, ptr %state, i64 2
  %p3 = getelementptr <4 x double>, ptr %state, i64 3
  %a0 = load <4 x double>, ptr %state, align 32
  %b0 = load <4 x double>, ptr %p1, align 32
  %c0 = load <4 x double>, ptr %p2, align 32
  %d0 = load <4 x double>, ptr %p3, align 32
  %m1 = insertelement <4 x double> undef, double %m, i32 0
  %mv = shufflevector <4 x double> %m1, <4 x double> undef, <4 x i32> zeroinitializer
  %c1 = insertelement <4 x double> undef, double %c, i32 0
  %cv = shufflevector <4 x double> %c1, <4 x double> undef, <4 x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %xa = phi <4 x double> [ %a0, %entry ], [ %ya, %loop ]
  %xb = phi <4 x double> [ %b0, %entry ], [ %yb, %loop ]
  %xc = phi <4 x double> [ %c0, %entry ], [ %yc, %loop ]
  %xd = phi <4 x double> [ %d0, %entry ], [ %yd, %loop ]
  %ta = fmul <4 x double> %xa, %mv
  %tb = fmul <4 x double> %xb, %mv
  %tc = fmul <4 x double> %xc, %mv
  %td = fmul <4 x double> %xd, %mv
  %ya = fadd <4 x double> %ta, %cv
  %yb = fadd <4 x double> %tb, %cv
  %yc = fadd <4 x double> %tc, %cv
  %yd = fadd <4 x double> %td, %cv
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  store <4 x double> %ya, ptr %state, align 32
  store <4 x double> %yb, ptr %p1, align 32
  store <4 x double> %yc, ptr %p2, align 32
  store <4 x double> %yd, ptr %p3, align 32
  ret void
}

; p[i] := i mod 1024
define void @fill(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %low = and i64 %i, 1023
  %value = sitofp i64 %low to double
  %at = getelementptr double, ptr %p, i64 %i
  store double %value, ptr %at, align 8
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; a[i] := b[i] + s * c[i]; n is a multiple of 4
define void @triad(ptr %a, ptr %b, ptr %c, double %s, i64 %n) {
entry:
  %s1 = insertelement <4 x double> undef, double %s, i32 0
  %sv = shufflevector <4 x double> %s1, <4 x double> undef, <4 x i32> zeroinitializer
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %pa = getelementptr double, ptr %a, i64 %i
  %pb = getelementptr double, ptr %b, i64 %i
  %pc = getelementptr double, ptr %c, i64 %i
  %xb = load <4 x double>, ptr %pb, align 32
  %xc = load <4 x double>, ptr %pc, align 32
  %t = fmul <4 x double> %xc, %sv
  %y = fadd <4 x double> %xb, %t
  store <4 x double> %y, ptr %pa, align 32
  %next = add i64 %i, 4
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; the sum of n doubles
define double @total(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi <4 x double> [ zeroinitializer, %entry ], [ %with, %loop ]
  %at = getelementptr double, ptr %p, i64 %i
  %x = load <4 x double>, ptr %at, align 32
  %with = fadd <4 x double> %sum, %x
  %next = add i64 %i, 4
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  %x0 = extractelement <4 x double> %with, i32 0
  %x1 = extractelement <4 x double> %with, i32 1
  %x2 = extractelement <4 x double> %with, i32 2
  %x3 = extractelement <4 x double> %with, i32 3
  %s01 = fadd double %x0, %x1
  %s23 = fadd double %x2, %x3
  %all = fadd double %s01, %s23
  ret double %all
}
