package dbtest_test
import ("testing";"time";"github.com/waypost/waypost/db/dbtest")
func TestZZ(t *testing.T){
 dbtest.NewURL(t)
 a:=time.Now()
 for range 20 { t.Run("",func(t *testing.T){ dbtest.NewURL(t)}) }
 t.Log(time.Since(a)/20)
}
