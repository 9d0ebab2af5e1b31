package kafka.utils

import java.lang.reflect.Method
import java.util
import java.util.{Collections, Optional}

import org.apache.kafka.clients.consumer.GroupProtocol
import org.junit.jupiter.api.TestInfo
import org.opentest4j.TestAbortedException

class EmptyTestInfo extends TestInfo {
  override def getDisplayName: String = ""
  override def getTags: util.Set[String] = Collections.emptySet()
  override def getTestClass: Optional[Class[_]] = Optional.empty()
  override def getTestMethod: Optional[Method] = Optional.empty()
}

/** Stand-in for what tells Kafka's tests how to run: with ZooKeeper, or not at all. */
object TestInfoUtils {
  final val TestWithParameterizedQuorumAndGroupProtocolNames = "{displayName}.quorum={0}.groupProtocol={1}"

  def isKRaft(test: TestInfo): Boolean = {
    val name = test.getDisplayName
    if (name.contains("quorum=kraft") || name.contains("quorum=zkMigration")) throw new TestAbortedException("not with ZooKeeper")
    false
  }

  def isZkMigrationTest(test: TestInfo): Boolean = false
  def isNewGroupCoordinatorEnabled(test: TestInfo): Boolean = false

  def maybeGroupProtocolSpecified(test: TestInfo): Option[GroupProtocol] =
    GroupProtocol.values.find(one => test.getDisplayName.contains(s"groupProtocol=${one.name.toLowerCase}"))
}
